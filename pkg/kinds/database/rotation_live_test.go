//go:build integration

package database

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
	"windlass.dev/windlass/test/postgres"
)

// liveDatabase is a Database whose reconciler runs on fake clientsets, and whose container runs on this machine.
type liveDatabase struct {
	fixture
	*liveServer
	connector *postgresql.Connector
	// previousUsers are the known users of the previous login.
	previousUsers atomic.Pointer[[]string]
	mounted       string
	// beforeReconcile, if it is set, is called before each reconcile.
	beforeReconcile func()
	// output is what the operator logs, at the highest verbosity.
	output bytes.Buffer
	logger klog.Logger
}

// newLiveDatabase returns a live Database. The functions in prepare change it before its container starts.
func newLiveDatabase(t *testing.T, prepare ...func(*liveDatabase)) *liveDatabase {
	t.Helper()
	allowed, err := postgresql.ParseAllowedHosts([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	d := &liveDatabase{liveServer: &liveServer{db: example(), pod: postgres.NewPod(t)}}
	if d.connector, err = postgresql.NewConnector(postgresql.Options{Allowed: allowed}); err != nil {
		t.Fatal(err)
	}
	d.logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&d.output), textlogger.Verbosity(10)))
	d.previousUsers.Store(new([]string))
	for _, change := range prepare {
		change(d)
	}
	d.fixture = newFixtureWith(t, Options{
		Connector: d, Users: func(*corev1.Secret) []string { return *d.previousUsers.Load() },
	}, d.db)
	d.operate(t)
	d.launch(t)
	d.awaitReady(t)
	d.liveServer.secret = d.fixture.secret()
	d.start()
	d.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "new" })
	pod := d.fixture.pod("new", corev1.PodStatus{PodIP: "10.0.0.7", Phase: corev1.PodRunning})
	pod.UID, pod.CreationTimestamp = "pod-uid", metav1.NewTime(d.Clock.Now())
	d.Store(pod)
	d.Clock.Step(time.Minute)
	return d
}

// Settings implements Connector. It connects to the container in place of the address of the Pod.
func (d *liveDatabase) Settings(
	ctx context.Context, namespace string, as postgresql.Settings,
) (postgresql.ServerSettings, error) {
	at, err := strconv.ParseUint(d.liveServer.pod.Port, 10, 16)
	if err != nil {
		return postgresql.ServerSettings{}, err
	}
	as.Host, as.Port = "127.0.0.1", uint16(at)
	return d.connector.Settings(ctx, namespace, as)
}

// operate reconciles once, and does what the kubelet does: it passes the settings to the container.
func (d *liveDatabase) operate(t *testing.T) {
	t.Helper()
	if d.beforeReconcile != nil {
		d.beforeReconcile()
	}
	d.Observe()
	if _, err := d.Pipeline.Sync(klog.NewContext(t.Context(), d.logger), d.Key); err != nil {
		d.logger.Error(err, "Failed to reconcile") // a failure is retried
	}
	if settings := d.fixture.settings(); settings != nil && revisionOf(settings) != d.mounted {
		d.mounted = revisionOf(settings)
		d.liveServer.pod.Mount(t, settingsVolume, settings.Data)
	}
}

// until calls operate until holds returns true.
func (d *liveDatabase) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	d.eventually(t, what, func() bool {
		d.operate(t)
		return holds()
	})
}

// client logs in as fast as it can with the login in one version of the connection Secret, and writes a row in each
// session.
type client struct {
	stop chan struct{}
	done sync.WaitGroup
	rows int
	err  error
}

func (d *liveDatabase) newClient(secret *corev1.Secret) *client {
	c := &client{stop: make(chan struct{})}
	c.done.Go(func() {
		for c.err == nil {
			select {
			case <-c.stop:
				return
			default:
				c.err = d.write(secret)
				c.rows++
			}
		}
	})
	return c
}

// loginWith logs in with a connection Secret.
func (d *liveDatabase) loginWith(ctx context.Context, secret *corev1.Secret) (*pgx.Conn, error) {
	conn, err := d.connect(ctx, string(secret.Data[credentials.KeyUsername]),
		string(secret.Data[credentials.KeyPassword]), d.db.Spec.DatabaseName)
	if err != nil {
		return nil, fmt.Errorf("logging in as %s: %w", secret.Data[credentials.KeyUsername], err)
	}
	return conn, nil
}

func (d *liveDatabase) write(secret *corev1.Secret) error {
	ctx := context.Background()
	conn, err := d.loginWith(ctx, secret)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "insert into orders default values")
	return errors.Join(err, conn.Close(ctx))
}

// end stops the client, and fails the test if a login or a write has failed. It returns the number of rows.
func (c *client) end(t *testing.T, who string) int {
	t.Helper()
	close(c.stop)
	c.done.Wait()
	if c.err != nil {
		t.Errorf("the client of the %s generation, after %d rows: %v", who, c.rows, c.err)
	}
	return c.rows
}

// rotate requests a rotation, and returns the new Secret and the number of rows that clients have written. A client
// with the previous login runs until the previous login may end. A client with the new login runs from the time at
// which the Secret has this login.
func (d *liveDatabase) rotate(t *testing.T, n int) (secret *corev1.Secret, rows int) {
	t.Helper()
	previous := d.fixture.secret()
	d.previousUsers.Store(&[]string{"App web"})
	old := d.newClient(previous)
	d.Change(func(db *v1alpha1.Database) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, credentials.RotateAnnotation, strconv.Itoa(n))
	})
	d.until(t, "the Secret to have another login", func() bool {
		secret = d.fixture.secret()
		return secret != nil && string(secret.Data[credentials.KeyUsername]) != string(previous.Data[credentials.KeyUsername])
	})
	fresh := d.newClient(secret)
	d.Clock.Step(credentials.DefaultGracePeriod + time.Second)
	d.until(t, "the rotation to wait for the App", func() bool {
		status := d.Object().Status.Credentials
		return status != nil && status.WaitingFor == "App web"
	})
	rows = old.end(t, "previous")
	d.previousUsers.Store(new([]string))
	d.until(t, "the server to reject the previous login", func() bool {
		// It writes no row: the server can end the session of the previous login between a commit and its response.
		conn, err := d.loginWith(t.Context(), previous)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil && (strings.Contains(err.Error(), "28000") || strings.Contains(err.Error(), "28P01"))
	})
	return secret, rows + fresh.end(t, "new")
}

// atMostTwo fails the test if another role than the login in the connection Secret can log in, or if the owner does not
// own the tables.
func (d *liveDatabase) atMostTwo(t *testing.T) {
	t.Helper()
	secret := d.fixture.secret()
	conn, err := d.connect(t.Context(), string(secret.Data[credentials.KeyUsername]),
		string(secret.Data[credentials.KeyPassword]), "app")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	logins := askIn(t, conn, "select string_agg(rolname::text, ' ') from pg_roles where rolcanlogin and rolname "+
		"<> 'postgres'")
	if logins != string(secret.Data[credentials.KeyUsername]) {
		t.Errorf("after the rotation, the logins are %s", logins)
	}
	if string(secret.Data[credentials.KeyUsername]) == credentials.Alternates("app")[0] {
		return // the owner gets a new table of an alternate only with the next settings
	}
	owners := askIn(t, conn, "select string_agg(distinct tableowner::text, ' ') from pg_tables where tablename in "+
		"('orders', 'made_by_alternate')")
	if owners != "app" {
		t.Errorf("the owners of the tables are %s", owners)
	}
}

var rotations = flag.Int("database.rotations", 4, "the number of rotations of a running PostgreSQL server; half as "+
	"many while something fails")

func TestRotationsWithoutFailedLogin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		disturb   func(*testing.T, *liveDatabase) (stop func())
		rotations int
	}{
		"nothing fails":                      {func(*testing.T, *liveDatabase) func() { return func() {} }, *rotations},
		"programs in the Pod are killed":     {killPrograms, (*rotations + 1) / 2},
		"the operator is killed at requests": {killOperator, (*rotations + 1) / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newLiveDatabase(t)
			if _, err := d.login(t).Exec(t.Context(), "create table orders (id bigint generated always as identity); "+
				"alter role app set search_path = '$user', public; "+
				"alter role app in database app set work_mem = '7MB'"); err != nil {
				t.Fatal(err)
			}
			// The text of these settings of the owner contains a statement if it is quoted in one encoding and read in
			// another.
			session := d.login(t)
			for _, sql := range []string{
				"alter role app set backslash_quote = on", "alter role app set client_encoding = 'SJIS'",
				`alter role app set application_name = E'ぃ\\\', true); ALTER ROLE app SUPERUSER; --'`,
			} {
				if _, err := session.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			started := d.ask(t, startTime)
			stop := c.disturb(t, d)
			rows := 0
			for n := range c.rotations {
				secret, written := d.rotate(t, n)
				rows += written
				d.liveServer.secret = secret
				d.atMostTwo(t)
				d.wants(t, "select current_setting('search_path') || ' ' || current_setting('work_mem')", `"$user", public 7MB`)
				if n == 0 { // as a connection pool does
					session := d.login(t)
					for _, sql := range []string{"discard all", "create table made_by_alternate (id int)"} {
						if _, err := session.Exec(t.Context(), sql); err != nil {
							t.Error(err)
						}
					}
				}
			}
			stop()
			d.wants(t, "select count(*)::text from orders", strconv.Itoa(rows))
			d.wants(t, startTime, started)
			d.wants(t, "select count(*)::text from pg_roles where rolsuper and rolname <> 'postgres'", "0")
			t.Logf("%d rotations, %d logins that wrote a row, 0 failed", c.rotations, rows)
		})
	}
}

// killPrograms repeatedly kills the programs that the script in the Pod runs.
func killPrograms(_ *testing.T, d *liveDatabase) (stop func()) {
	ends, programs := make(chan struct{}), []string{
		"psql", "sleep", "cat", "cp", "sed", "grep", "mv", "tr", "cut", "mkdir", "rm",
	}
	var done sync.WaitGroup
	done.Go(func() {
		ticks := time.NewTicker(5 * time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-ends:
				return
			case <-ticks.C:
				for _, process := range d.running.Processes() {
					if slices.Contains(programs, process.Program) {
						_ = syscall.Kill(process.ID, syscall.SIGKILL) // the process may have ended
						break
					}
				}
			}
		}
	})
	return func() {
		close(ends)
		done.Wait()
	}
}

// killOperator makes one request fail in every second reconcile, in a new process of the operator.
func killOperator(_ *testing.T, d *liveDatabase) (stop func()) {
	lost := apierrors.NewInternalError(errors.New("the operator was killed"))
	n := 0
	d.beforeReconcile = func() {
		requests := []struct{ verb, resource string }{
			{"patch", "secrets"}, {"update", "databases"}, {"patch", "pods"}, {"get", "secrets"}, {"get", "databases"},
		}
		if n++; n%2 == 0 {
			request := requests[n/2%len(requests)]
			d.Journal.FailNext(request.verb, request.resource, lost)
			d.Restart()
		}
	}
	return func() { d.beforeReconcile = nil }
}
