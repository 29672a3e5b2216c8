//go:build integration

package integration

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

func TestExternalDatabaseCreatesAndDropsRoleAndDatabase(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) { s.Extensions = []v1alpha1.ExtensionName{"pgcrypto"} })
	db := e.ready(t)
	e.wantOwnerLogin(t)
	if want := e.query(t, "postgres", "select (select system_identifier from pg_control_system()) || '/' || (select "+
		"oid from pg_database where datname = 'database')"); db.Status.ExternalID != want {
		t.Errorf("status.externalID is %q, want %q", db.Status.ExternalID, want)
	}
	for sql, want := range map[string]string{
		"select rolcanlogin and not rolsuper and not rolcreaterole and not rolcreatedb from pg_roles where " +
			"rolname = 'owner'": "true",
		"select has_database_privilege('public', " +
			"'database', 'CONNECT')": "false",
		"select count(*) from pg_extension where extname = 'pgcrypto'": "1",
		"select shobj_description(oid, 'pg_database') like 'windlass.dev/externaldatabase %/shop %' from pg_database " +
			"where datname = 'database'": "true",
	} {
		if got := e.query(t, e.spec().DatabaseName, sql); got != want {
			t.Errorf("%s returns %s, want %s", sql, got, want)
		}
	}
	read, err := url.Parse(string(shared.Credentials(t, e.namespace, "shop").Data["uri"]))
	if err != nil || read.Query().Get("sslmode") != "disable" {
		t.Errorf("the uri does not have the sslmode of the connection Secret: %v", err)
	}
	e.delete(t)
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}

// wantLeft fails the test unless want is the number of objects on the server: "2" if both the role and the database
// exist, and "0" if neither exists.
func (e *external) wantLeft(t *testing.T, want string) {
	t.Helper()
	const sql = "select (select count(*) from pg_database where datname = 'database') + (select count(*) from " +
		"pg_roles where rolname = 'owner')"
	if got := e.query(t, "postgres", sql); got != want {
		t.Errorf("the server has %s of the role and the database, want %s", got, want)
	}
}

// TestNoOpReconcileOpensOneConnectionAndOnlyReads counts logins and statements in a proxy.
func TestNoOpReconcileOpensOneConnectionAndOnlyReads(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy := postgres.NewProxy(t, server.Address())
	e := newExternal(t, server, throughProxy(proxy, server))
	e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) {
		s.Extensions = []v1alpha1.ExtensionName{"pgcrypto", "pageinspect"}
	})
	e.ready(t)
	creation := len(proxy.Statements())
	const reconciles = 10
	for n := range reconciles {
		e.touch(t)
		framework.Eventually(t, "a reconcile", func(context.Context) (bool, error) {
			return len(proxy.Statements()) >= creation+2*(n+1), nil
		})
	}
	logins, queries := 0, 0
	for _, statement := range proxy.Statements()[creation:] {
		switch {
		case statement == postgres.Login:
			logins++
		case strings.HasPrefix(statement, "select"):
			queries++
		default:
			t.Errorf("a no-op reconcile sends %q", statement)
		}
	}
	// Late events of the creation may cause one or two more reconciles. With two connections in each reconcile, the
	// numbers would be twice as large.
	if logins >= reconciles*3/2 || queries >= reconciles*3/2 {
		t.Errorf("%d no-op reconciles took %d logins and %d queries", reconciles, logins, queries)
	}
	t.Logf("the creation took %d logins and statements; %d no-op reconciles took %d logins and %d queries", creation,
		reconciles, logins, queries)
}

func TestExternalDatabaseCorrectsDriftOnServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, check, want string }{
		"an altered role": {
			"ALTER ROLE @owner NOLOGIN CREATEROLE CREATEDB VALID UNTIL '2001-01-01'",
			"select rolcanlogin and not rolcreaterole and not rolcreatedb from pg_roles where rolname = 'owner'", "true",
		},
		"another password": {"ALTER ROLE @owner PASSWORD 'theirs'", "select 1", "1"},
		"a dropped extension": {
			"DROP EXTENSION pgcrypto", "select count(*) from pg_extension where extname = 'pgcrypto'", "1",
		},
		"changed grants": {
			"GRANT CONNECT ON DATABASE @database TO PUBLIC; REVOKE ALL ON DATABASE @database FROM @owner",
			"select has_database_privilege('public', 'database', 'CONNECT') or not has_database_privilege('owner', " +
				"'database', 'CREATE')", "false",
		},
		"another owner": {
			"ALTER DATABASE @database OWNER TO postgres", "select pg_get_userbyid(datdba) = 'owner' from pg_database " +
				"where datname = 'database'", "true",
		},
		"a removed mark": {
			"COMMENT ON DATABASE @database IS NULL", "select shobj_description(oid, 'pg_database') is not null from " +
				"pg_database where datname = 'database'", "true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, sharedServer(t), nil)
			e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) { s.Extensions = []v1alpha1.ExtensionName{"pgcrypto"} })
			id := e.ready(t).Status.ExternalID
			password := shared.Credentials(t, e.namespace, "shop").Data["password"]
			e.exec(t, e.spec().DatabaseName, c.change)
			e.touch(t)
			framework.Eventually(t, "the drift on the server to be corrected", func(ctx context.Context) (bool, error) {
				conn, err := e.connect(ctx, t)
				if err != nil {
					return false, nil
				}
				_ = conn.Close(ctx)
				return e.query(t, e.spec().DatabaseName, c.check) == c.want, nil
			})
			db := e.ready(t)
			if db.Status.ExternalID != id ||
				string(shared.Credentials(t, e.namespace, "shop").Data["password"]) != string(password) {
				t.Errorf("the ID of the database or the password has changed")
			}
			e.wantOwnerLogin(t)
		})
	}
}

func TestExternalDatabaseSetsPasswordOfItsSecret(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	login := func(what string) {
		t.Helper()
		framework.Eventually(t, what, func(ctx context.Context) (bool, error) {
			secret, err := shared.Kube.CoreV1().Secrets(e.namespace).Get(ctx, "shop-credentials", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			conn, err := e.connect(ctx, t)
			if err != nil {
				return false, nil
			}
			uri, _ := url.Parse(string(secret.Data["uri"]))
			password, _ := uri.User.Password()
			return password == string(secret.Data["password"]), conn.Close(ctx)
		})
	}
	patchSecret(t, e.namespace, "shop-credentials", `{"stringData":{"password":" a'b\"c\\d:e@f/g$h%41 "}}`)
	login("the server to accept a password that a user has set")
	before := shared.Credentials(t, e.namespace, "shop").UID
	if err := shared.Kube.CoreV1().Secrets(e.namespace).Delete(t.Context(), "shop-credentials",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	login("the server to accept a generated password")
	if shared.Credentials(t, e.namespace, "shop").UID == before {
		t.Error("the Secret was not created again")
	}
	patchSecret(t, e.namespace, "shop-credentials", `{"stringData":{"password":"lïne"}}`)
	e.reason(t, "InvalidPassword")
}

func TestAppUsesCredentialsOfExternalDatabase(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	app := smallest()
	app.DatabaseRef = &v1alpha1.DatabaseReference{Kind: "ExternalDatabase", Name: "shop"}
	shared.CreateApp(t, e.namespace, "storefront", app)
	shared.AppReason(t, e.namespace, "storefront", "DependencyMissing")
	e.create(t, nil)
	e.ready(t)
	shared.AppIn(t, e.namespace, "storefront", v1alpha1.AppReady)
	d, err := shared.Kube.AppsV1().Deployments(e.namespace).Get(t.Context(), "storefront", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret := shared.Credentials(t, e.namespace, "shop")
	for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
		from := variable.ValueFrom
		if from != nil && ptr.Deref(from.SecretKeyRef.Optional, false) {
			continue // the server has no CA
		}
		if from != nil && (from.SecretKeyRef.Name != secret.Name || len(secret.Data[from.SecretKeyRef.Key]) == 0) {
			t.Errorf("variable %s uses the key %+v, which does not exist", variable.Name, from.SecretKeyRef)
		}
	}
}

func TestAPIServerRejectsInvalidExternalDatabases(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	for name, c := range map[string]struct {
		change func(*v1alpha1.ExternalDatabase)
		want   string
	}{
		"no connection": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.ConnectionSecretRef.Name = "" }, "connectionSecretRef.name",
		},
		"its own Secret": {
			func(d *v1alpha1.ExternalDatabase) {
				d.Spec.ConnectionSecretRef.Name = "shop-credentials"
			}, "must not name <name>-credentials",
		},
		"no database":     {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "" }, "databaseName"},
		"a long database": {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = strings.Repeat("x", 64) }, "63"},
		"a database of 64 bytes": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = strings.Repeat("ä", 32) }, "at most 63 bytes",
		},
		"a NUL": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "a\x00b" }, "no control characters",
		},
		"the server's database": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "postgres" }, "not be postgres",
		},
		"the server's superuser": {func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "postgres" }, "not be postgres"},
		"a role of the server's": {func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "pg_monitor" }, "not begin with pg_"},
		"a reserved default owner": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName, d.Spec.Owner = "public", "" }, "owner must be set",
		},
		"an extension in SQL": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.Extensions = []v1alpha1.ExtensionName{`x"; drop`} }, "extensions",
		},
		"a duplicate extension": {
			func(d *v1alpha1.ExternalDatabase) { d.Spec.Extensions = []v1alpha1.ExtensionName{"a", "a"} }, "Duplicate",
		},
		"an unknown policy": {func(d *v1alpha1.ExternalDatabase) { d.Spec.DeletionPolicy = "Perhaps" }, "Retain"},
		"a long name":       {func(d *v1alpha1.ExternalDatabase) { d.Name = strings.Repeat("x", 242) }, "241 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			db := &v1alpha1.ExternalDatabase{
				ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: (&external{namespace: namespace}).spec(),
			}
			c.change(db)
			_, err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(namespace).Create(t.Context(), db,
				metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an Invalid error with %q", err, c.want)
			}
		})
	}
}

func TestAPIServerRejectsImmutableExternalDatabaseChanges(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	for name, change := range map[string]func(*v1alpha1.ExternalDatabase){
		"another database": func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "else" },
		"another owner":    func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "else" },
		"no owner":         func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "" },
	} {
		t.Run(name, func(t *testing.T) {
			objects := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace)
			framework.Eventually(t, "an update without a conflict", func(ctx context.Context) (bool, error) {
				db, err := objects.Get(ctx, "shop", metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				change(db)
				_, err = objects.Update(ctx, db, metav1.UpdateOptions{})
				if apierrors.IsConflict(err) {
					return false, nil
				}
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be changed") {
					t.Errorf("updating the ExternalDatabase: got %v, want an Invalid error with %q", err, "cannot be changed")
				}
				return true, nil
			})
		})
	}
}

// wantMessage waits until the condition Ready has a reason. It fails the test unless the message contains all words
// and no password, and the condition Degraded is True exactly if degraded is set.
func (e *external) wantMessage(t *testing.T, reason string, degraded bool, words ...string) {
	t.Helper()
	db := e.reason(t, reason)
	for _, word := range words {
		if !strings.Contains(message(db), word) {
			t.Errorf("the message does not contain %q: %s", word, message(db))
		}
	}
	if got := meta.IsStatusConditionTrue(db.Status.Conditions, "Degraded"); got != degraded {
		t.Errorf("Degraded is %t with reason %s, want %t: %s", got, reason, degraded, message(db))
	}
	if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "canary") }) ||
		strings.Contains(message(db), "canary") {
		t.Errorf("the message contains a password: %s", message(db))
	}
}
