//go:build integration

package integration

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func TestPostgreSQLUsesCredentialsOfSecret(t *testing.T) {
	t.Parallel()
	const owner, database = `we"ird's $(PGPORT) \role`, `ap"p: 'd$$b'/?`
	s := newServer(t, func(spec *v1alpha1.DatabaseSpec) {
		spec.Owner, spec.DatabaseName = owner, database
		// Parameters that may disturb the script in the Pod, or add statements to the log.
		spec.Parameters = map[string]v1alpha1.ParameterValue{
			"log_statement": "all", "debug_print_parse": "on", "log_min_error_statement": "debug5",
			"log_min_duration_statement":    "0",
			"default_transaction_read_only": "on", "password_encryption": "md5", "lock_timeout": "1", "search_path": "none",
		}
	})
	var previous []*corev1.Secret
	works := func(when string) {
		t.Helper()
		credentials := shared.Credentials(t, s.namespace, "shop")
		s.wants(t, "select 1", "1")
		s.wants(t, "select current_user || ' in ' || current_database()", owner+" in "+database)
		if got := s.psql(t, credentials); got != "1" {
			t.Errorf("%s, psql with pgpass returns %q, want 1", when, got)
		}
		for _, secret := range previous {
			s.rejects(t, secret)
		}
		for _, secret := range append(previous, credentials) {
			if strings.Contains(s.running.Log(), string(secret.Data["password"])) {
				t.Errorf("%s, the server's log contains the password", when)
			}
		}
	}
	works("after the first start")
	s.restart(t)
	works("after a restart")

	started := s.query(t, "select pg_postmaster_start_time()::text")
	previous = append(previous, shared.Credentials(t, s.namespace, "shop"))
	s.patchCredentials(t, `{"stringData":{"password":" a'b\"c\\d:e@f/g$h%41 ü "}}`)
	works("after the password was changed")

	previous = append(previous, shared.Credentials(t, s.namespace, "shop"))
	if err := shared.Kube.CoreV1().Secrets(s.namespace).Delete(t.Context(), "shop-credentials",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.apply(t)
	works("after the Secret was deleted")
	s.wants(t, "select pg_postmaster_start_time()::text", started)
	// The kubelet restarts the container only after many failures, because a loaded node may delay the server's loop.
	s.eventually(t, "the liveness probe to succeed", func() bool {
		return s.running.Probe(t.Context(), s.container(t).LivenessProbe) == nil
	})
}

func TestDatabaseChangesKeepData(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.wants(t, "with made as (select 1) select count(*)::text from made", "1")
	s.exec(t, "create table orders as select 1 as id")
	change := func(change func(*v1alpha1.DatabaseSpec)) {
		t.Helper()
		shared.UpdateDatabase(t, s.namespace, "shop", func(db *v1alpha1.Database) { change(&db.Spec) })
		s.apply(t)
	}
	rows := func(want string) {
		t.Helper()
		s.wants(t, "select string_agg(id::text, ' ' order by id) from orders", want)
	}

	s.running.Kill()
	s.start(t)
	rows("1")

	change(func(spec *v1alpha1.DatabaseSpec) {
		spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "9MB", "log_line_prefix": "$(PGDATA) $$ %m "}
	})
	rows("1")
	s.wants(t, "select current_setting('work_mem') || ' ' || current_setting('log_line_prefix')", "9MB $(PGDATA) $$ %m ")

	first := shared.Credentials(t, s.namespace, "shop")
	change(func(spec *v1alpha1.DatabaseSpec) { spec.Owner = "clerk" })
	s.exec(t, "insert into orders values (2)") // clerk owns the table now
	rows("1 2")
	s.rejects(t, first)

	change(func(spec *v1alpha1.DatabaseSpec) { spec.DatabaseName = "archive" })
	s.wants(t, "select count(*)::text from pg_tables where tablename = 'orders'", "0")
	change(func(spec *v1alpha1.DatabaseSpec) { spec.DatabaseName, spec.Owner = "app", "app" })
	rows("1 2")
	s.exec(t, "drop table orders")
}

func TestPreviousOwnerLosesTablesAndLogin(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.exec(t, "create table orders as select 1 as id")
	var previous []*corev1.Secret
	become := func(database, owner string) {
		t.Helper()
		previous = append(previous, shared.Credentials(t, s.namespace, "shop"))
		shared.UpdateDatabase(t, s.namespace, "shop", func(db *v1alpha1.Database) {
			db.Spec.DatabaseName = database
			db.Spec.Owner = owner
		})
		s.apply(t)
		s.wants(t, "select current_user || ' in ' || current_database()", owner+" in "+database)
	}
	become("archive", "app")
	become("archive", "clerk")
	become("app", "clerk") // the previous owner app still owns this database
	s.wants(t, "select string_agg(id::text, ' ') from orders", "1")
	become("host=nowhere a=b", "both at once")
	become("postgresql://nowhere/x", "both at once")
	for _, secret := range previous {
		if string(secret.Data["username"]) != "both at once" {
			s.rejects(t, secret)
		}
	}
	// The script in the Pod runs as the superuser. It must not call functions that an owner has created.
	s.admin(t, `grant create on schema public to public; grant connect on database postgres to public`)
	secret := shared.Credentials(t, s.namespace, "shop")
	secret.Data["uri"] = []byte(strings.Replace(string(secret.Data["uri"]),
		"/"+url.PathEscape("postgresql://nowhere/x"), "/postgres", 1))
	connection, err := s.connect(t, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(context.Background())
	for _, sql := range []string{
		`create function public.format(text, text) returns text language sql as $$ select 'alter role "both at once" ` +
			`superuser'::text $$`,
		`create function public.format(text, name) returns text language sql as $$ select 'alter role "both at once" ` +
			`superuser'::text $$`,
	} {
		if _, err := connection.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	become("app", "next")
	s.wants(t, "select count(*)::text from pg_roles where rolsuper and rolname <> 'postgres'", "0")
}

// admin executes statements as the superuser, through the socket.
func (s *server) admin(t *testing.T, sql string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(),
		"host="+s.pod.Path("run")+" port="+s.pod.Port+" user=postgres dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(context.Background())
	if _, err := connection.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestInvalidPasswordKeepsServerRunning(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	previous, before := shared.Credentials(t, s.namespace, "shop"), s.container(t)
	for name, password := range map[string]string{
		"a line break at the end": "secret\n", "a line break inside": "a\nb", "a tab": "a\tb",
	} {
		secret := shared.Credentials(t, s.namespace, "shop")
		secret.Data["password"] = []byte(password)
		if _, err := shared.Kube.CoreV1().Secrets(s.namespace).Update(t.Context(), secret,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		shared.DatabaseReason(t, s.namespace, "shop", "InvalidPassword")
		if err := s.running.Probe(t.Context(), before.LivenessProbe); err != nil {
			t.Errorf("with %s in the password the liveness probe fails: %v", name, err)
		}
		s.running.Stop(t) // then start the container again, as after a failure of the node
		s.running = s.pod.Start(t, before)
		s.readyBy(t, before.ReadinessProbe)
		connection, err := s.connect(t, previous)
		if err != nil {
			t.Fatalf("with %s in the new password the server does not keep its password: %v", name, err)
		}
		_ = connection.Close(t.Context())
	}
	s.patchCredentials(t, `{"stringData":{"password":"mended"}}`)
	s.wants(t, "select 1", "1")
}

func TestSecondServerRejectsVolumeInUse(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	first := s.running
	s.launch(t) // runs a second container, as in another Pod with the same claim
	<-s.running.Ended()
	if got := s.pod.TerminationMessage(); !strings.Contains(got, "Another server uses the volume") {
		t.Errorf("the second server ended with %q; its log:\n%s", got, s.running.Log())
	}
	s.wants(t, "select 1", "1")
	first.Kill()
	s.start(t)
	s.wants(t, "select 1", "1")
}

func TestRecreatedDatabaseKeepsData(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.exec(t, "create table orders as select 1 as id")
	previous := shared.Credentials(t, s.namespace, "shop")
	spec := framework.SmallestDatabase()
	spec.Version = shared.DatabaseIn(t, s.namespace, "shop", v1alpha1.DatabaseReady).Spec.Version
	deleteDatabase(t, s.namespace)
	s.running.Stop(t)
	shared.CreateDatabase(t, s.namespace, "shop", spec)
	s.start(t)
	s.wants(t, "select id::text from orders", "1")
	previous.Data["ca.crt"] = shared.Credentials(t, s.namespace, "shop").Data["ca.crt"] // the Database has another CA
	s.rejects(t, previous)
}

// exec executes a statement with the credentials in the current Secret.
func (s *server) exec(t *testing.T, sql string) {
	t.Helper()
	connection, err := s.connect(t, shared.Credentials(t, s.namespace, "shop"))
	if err != nil {
		t.Fatalf("connecting: %v; the server's log:\n%s", err, s.running.Log())
	}
	defer connection.Close(context.Background())
	if _, err := connection.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TestServerStartsAfterInterruptedStart kills the container before each initdb, mv, sync, psql and postgres of the
// first start, before some of them in a later start, and within initdb.
func TestServerStartsAfterInterruptedStart(t *testing.T) {
	t.Parallel()
	quarter, err := framework.Quarter([]struct {
		program string
		n       int
		fresh   bool
	}{
		{"postgres", 1, true},
		{"psql", 1, true},
		{"psql", 2, true},
		{"psql", 3, true},
		{"postgres", 2, true},
		{"psql", 2, false},
		{"postgres", 2, false},
		{"initdb", 1, true},
		{"mv", 1, true},
		{"sync", 1, true},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, nil)
	for _, c := range quarter {
		s.interrupt(t, c.program, c.n, c.fresh)
	}

	s.clear(t)
	s.pod.Hold(t, "mv", 1) // mv would end the state that the next check awaits
	s.launch(t)
	s.eventually(t, "initdb to have created files", func() bool {
		_, err := os.Stat(filepath.Join(s.pod.Path("data"), "pgdata.new", "PG_VERSION"))
		return err == nil
	})
	s.running.Kill()
	s.start(t)
	s.wants(t, "select 1", "1")
}

// interrupt kills a start of the container at the nth run of a program, and then checks that the next start succeeds.
// If fresh, the volume is empty at the interrupted start.
func (s *server) interrupt(t *testing.T, program string, n int, fresh bool) {
	t.Helper()
	s.running.Kill()
	if fresh {
		s.clear(t)
	}
	s.pod.Hold(t, program, n)
	s.launch(t)
	s.eventually(t, fmt.Sprintf("the start to reach run %d of %s, with an empty volume: %t", n, program, fresh),
		s.pod.Held)
	s.running.Kill()
	s.start(t)
	s.wants(t, "select 1", "1")
}

// clear kills the container, and removes the volume.
func (s *server) clear(t *testing.T) {
	t.Helper()
	s.running.Kill()
	if err := os.RemoveAll(s.pod.Path("data")); err != nil {
		t.Fatal(err)
	}
}

func TestScriptRejectsForeignData(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.running.Stop(t)
	data := filepath.Join(s.pod.Path("data"), "pgdata")
	ends := func(want string) {
		t.Helper()
		s.launch(t)
		<-s.running.Ended()
		if got := s.pod.TerminationMessage(); !strings.Contains(got, want) {
			t.Errorf("the termination message is %q, want a message with %q; the log:\n%s", got, want, s.running.Log())
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	write("PG_VERSION", "9\n")
	ends("The volume has data of PostgreSQL 9, which PostgreSQL ")
	write("PG_VERSION", string(version))

	// Because of the Pod's fsGroup, each mount makes the files of the volume accessible to the group.
	if err := os.Chmod(data, 0o2770); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.wants(t, "select 1", "1")
	s.running.Stop(t)

	shared.UpdateDatabase(t, s.namespace, "shop", func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"shared_buffers": "nonsense"}
	})
	framework.Eventually(t, "the settings to change", func(context.Context) (bool, error) {
		return settingsRevision(t, s.namespace) != s.mounted, nil
	})
	if err := os.Remove(filepath.Join(data, "windlass.accepted")); err != nil { // as if the server had never started
		t.Fatal(err)
	}
	ends(`PostgreSQL does not start: invalid value for parameter "shared_buffers": "nonsense".`)
	if !strings.Contains(s.running.Log(), `invalid value for parameter "shared_buffers"`) {
		t.Errorf("the log does not name the invalid parameter:\n%s", s.running.Log())
	}

	if err := os.Rename(data, data+".theirs"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	write("precious", "theirs")
	ends("The volume has other files than the data of PostgreSQL in ")
	if text, err := os.ReadFile(filepath.Join(data, "precious")); err != nil || string(text) != "theirs" {
		t.Errorf("the foreign file contains %q, want theirs: %v", text, err)
	}
}
