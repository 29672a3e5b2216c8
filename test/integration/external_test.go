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

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/postgres"
	"windlass.dev/windlass/test/world"
)

func TestAnExternalDatabaseLives(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) { s.Extensions = []v1alpha1.ExtensionName{"pgcrypto"} })
	db := e.ready(t)
	e.works(t)
	if want := e.ask(t, "postgres", "select (select system_identifier from pg_control_system()) || '/' || (select oid from pg_database where datname = 'database')"); db.Status.ExternalID != want {
		t.Errorf("externalID is %q, not %q", db.Status.ExternalID, want)
	}
	for sql, want := range map[string]string{
		"select rolcanlogin and not rolsuper and not rolcreaterole and not rolcreatedb from pg_roles where rolname = 'owner'":                    "true",
		"select has_database_privilege('public', 'database', 'CONNECT')":                                                                         "false",
		"select count(*) from pg_extension where extname = 'pgcrypto'":                                                                           "1",
		"select shobj_description(oid, 'pg_database') like 'windlass.dev/externaldatabase %/shop %' from pg_database where datname = 'database'": "true",
	} {
		if got := e.ask(t, e.spec().DatabaseName, sql); got != want {
			t.Errorf("%s gives %s", sql, got)
		}
	}
	read, err := url.Parse(string(shared.Credentials(t, e.namespace, "shop").Data["uri"]))
	if err != nil || read.Query().Get("sslmode") != "disable" {
		t.Errorf("the uri does not say what the connection Secret does: %v", err)
	}
	e.delete(t)
	e.gone(t)
	e.left(t, "0")
}

// left fails the test unless so many are left of role and database.
func (e *external) left(t *testing.T, want string) {
	t.Helper()
	const sql = "select (select count(*) from pg_database where datname = 'database') + (select count(*) from pg_roles where rolname = 'owner')"
	if got := e.ask(t, "postgres", sql); got != want {
		t.Errorf("of role and database %s are left, not %s", got, want)
	}
}

// TestAtRestAPassOpensOneConnectionAndChangesNothing counts what comes by a proxy.
func TestAtRestAPassOpensOneConnectionAndChangesNothing(t *testing.T) {
	t.Parallel()
	server := outside(t)
	proxy := postgres.NewProxy(t, server.Address())
	e := newExternal(t, server, by(proxy, server))
	e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) {
		s.Extensions = []v1alpha1.ExtensionName{"pgcrypto", "pageinspect"}
	})
	e.ready(t)
	made := len(proxy.Asked())
	const passes = 10
	for n := range passes {
		e.touch(t)
		world.Eventually(t, "a pass", func(context.Context) (bool, error) { return len(proxy.Asked()) >= made+2*(n+1), nil })
	}
	logins, queries := 0, 0
	for _, asked := range proxy.Asked()[made:] {
		switch {
		case asked == postgres.Login:
			logins++
		case strings.HasPrefix(asked, "select"):
			queries++
		default:
			t.Errorf("a pass at rest asks for %q", asked)
		}
	}
	// What is told late of its making leads to a pass or two more. Two connections in a pass
	// would be twice as many.
	if logins >= passes*3/2 || queries >= passes*3/2 {
		t.Errorf("%d passes took %d logins and %d queries", passes, logins, queries)
	}
	t.Logf("made with %d logins and statements; %d passes at rest took %d logins and %d queries", made, passes, logins, queries)
}

func TestWhatSomebodyChangesOnTheServerIsPutRight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, check, want string }{
		"a role that was altered":       {"ALTER ROLE @owner NOLOGIN SUPERUSER CREATEDB VALID UNTIL '2001-01-01'", "select rolcanlogin and not rolsuper and not rolcreatedb from pg_roles where rolname = 'owner'", "true"},
		"another password":              {"ALTER ROLE @owner PASSWORD 'theirs'", "select 1", "1"},
		"an extension that was dropped": {"DROP EXTENSION pgcrypto", "select count(*) from pg_extension where extname = 'pgcrypto'", "1"},
		"grants that were changed":      {"GRANT CONNECT ON DATABASE @database TO PUBLIC; REVOKE ALL ON DATABASE @database FROM @owner", "select has_database_privilege('public', 'database', 'CONNECT') or not has_database_privilege('owner', 'database', 'CREATE')", "false"},
		"another owner":                 {"ALTER DATABASE @database OWNER TO postgres", "select pg_get_userbyid(datdba) = 'owner' from pg_database where datname = 'database'", "true"},
		"marks that were taken away":    {"COMMENT ON DATABASE @database IS NULL", "select shobj_description(oid, 'pg_database') is not null from pg_database where datname = 'database'", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, outside(t), nil)
			e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) { s.Extensions = []v1alpha1.ExtensionName{"pgcrypto"} })
			id := e.ready(t).Status.ExternalID
			password := shared.Credentials(t, e.namespace, "shop").Data["password"]
			e.do(t, e.spec().DatabaseName, c.change)
			e.touch(t)
			world.Eventually(t, "it to be put right", func(ctx context.Context) (bool, error) {
				conn, err := e.connect(ctx, t)
				if err != nil {
					return false, nil
				}
				_ = conn.Close(ctx)
				return e.ask(t, e.spec().DatabaseName, c.check) == c.want, nil
			})
			if db := e.ready(t); db.Status.ExternalID != id || string(shared.Credentials(t, e.namespace, "shop").Data["password"]) != string(password) {
				t.Errorf("it is another database, or has another password")
			}
			e.works(t)
		})
	}
}

func TestPasswordsOfAnExternalDatabaseReachTheServer(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	e.ready(t)
	takes := func(what string) {
		t.Helper()
		world.Eventually(t, what, func(ctx context.Context) (bool, error) {
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
	takes("the server to take a password of the user's")
	before := shared.Credentials(t, e.namespace, "shop").UID
	if err := shared.Kube.CoreV1().Secrets(e.namespace).Delete(t.Context(), "shop-credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	takes("the server to take a new password")
	if shared.Credentials(t, e.namespace, "shop").UID == before {
		t.Error("the Secret was not made anew")
	}
	patchSecret(t, e.namespace, "shop-credentials", `{"stringData":{"password":"lïne"}}`)
	e.reason(t, "InvalidPassword")
}

func TestAppsAndAtsReachAnExternalDatabase(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
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
		if from := variable.ValueFrom; from != nil && (from.SecretKeyRef.Name != secret.Name || len(secret.Data[from.SecretKeyRef.Key]) == 0) {
			t.Errorf("%s comes from %+v, which there is not", variable.Name, from.SecretKeyRef)
		}
	}
}

func TestBadExternalDatabasesAreRefused(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	for name, c := range map[string]struct {
		change func(*v1alpha1.ExternalDatabase)
		want   string
	}{
		"no connection":           {func(d *v1alpha1.ExternalDatabase) { d.Spec.ConnectionSecretRef.Name = "" }, "connectionSecretRef.name"},
		"its own Secret":          {func(d *v1alpha1.ExternalDatabase) { d.Spec.ConnectionSecretRef.Name = "shop-credentials" }, "must name another Secret"},
		"no database":             {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "" }, "databaseName"},
		"a long database":         {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = strings.Repeat("x", 64) }, "63"},
		"a database of 64 bytes":  {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = strings.Repeat("ä", 32) }, "63 bytes at most"},
		"a NUL":                   {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "a\x00b" }, "no control characters"},
		"the server's database":   {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "postgres" }, "not be postgres"},
		"the server's superuser":  {func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "postgres" }, "not be postgres"},
		"a role of the server's":  {func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "pg_monitor" }, "not begin with pg_"},
		"the same by default":     {func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName, d.Spec.Owner = "public", "" }, "owner must be said"},
		"an extension in SQL":     {func(d *v1alpha1.ExternalDatabase) { d.Spec.Extensions = []v1alpha1.ExtensionName{`x"; drop`} }, "extensions"},
		"an extension said twice": {func(d *v1alpha1.ExternalDatabase) { d.Spec.Extensions = []v1alpha1.ExtensionName{"a", "a"} }, "Duplicate"},
		"another policy":          {func(d *v1alpha1.ExternalDatabase) { d.Spec.DeletionPolicy = "Perhaps" }, "Retain"},
		"a long name":             {func(d *v1alpha1.ExternalDatabase) { d.Name = strings.Repeat("x", 242) }, "241 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			db := &v1alpha1.ExternalDatabase{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: (&external{namespace: namespace}).spec()}
			c.change(db)
			_, err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(namespace).Create(t.Context(), db, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("wanted a refusal with %q, got %v", c.want, err)
			}
		})
	}
}

func TestWhatAnExternalDatabaseCannotBecomeIsRefused(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	e.ready(t)
	for name, change := range map[string]func(*v1alpha1.ExternalDatabase){
		"another database": func(d *v1alpha1.ExternalDatabase) { d.Spec.DatabaseName = "else" },
		"another owner":    func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "else" },
		"no owner":         func(d *v1alpha1.ExternalDatabase) { d.Spec.Owner = "" },
	} {
		t.Run(name, func(t *testing.T) {
			objects := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace)
			world.Eventually(t, "an answer", func(ctx context.Context) (bool, error) {
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
					t.Errorf("it was not refused: %v", err)
				}
				return true, nil
			})
		})
	}
}

// says waits for a reason, and fails the test unless the message has all the words.
func (e *external) says(t *testing.T, reason string, degraded bool, words ...string) {
	t.Helper()
	db := e.reason(t, reason)
	for _, word := range words {
		if !strings.Contains(message(db), word) {
			t.Errorf("the message does not say %q: %s", word, message(db))
		}
	}
	if got := meta.IsStatusConditionTrue(db.Status.Conditions, "Degraded"); got != degraded {
		t.Errorf("Degraded is %t, at %s: %s", got, reason, message(db))
	}
	if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "canary") }) || strings.Contains(message(db), "canary") {
		t.Errorf("the message has a password: %s", message(db))
	}
}
