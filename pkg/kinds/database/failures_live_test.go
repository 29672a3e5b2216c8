//go:build integration

package database

import (
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// failingDatabase is a live Database whose server can fail.
type failingDatabase struct {
	*liveDatabase
	machine *postgres.Machine
}

// serverFailure is a failure of PostgreSQL, or of the machine of its Pod.
type serverFailure struct {
	// begin makes something fail, and returns the function that ends the failure.
	begin func(t *testing.T, d *failingDatabase) (end func())
	// says is a part of the message of the condition Ready while the failure lasts, if the failure concerns the Database.
	says string
}

var failures = map[string]serverFailure{
	"the volume is full": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.machine.Limit(t, d.machine.Used(t))
		return func() { d.machine.Limit(t, 4000*mebibyte) }
	}, "The volume of 1Gi is full."},
	"the volume is read-only": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.machine.SetReadOnly(t, true)
		return func() { d.machine.SetReadOnly(t, false) }
	}, ""},
	"files cannot be flushed": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.machine.SetFlushFails(t, true)
		return func() { d.machine.SetFlushFails(t, false) }
	}, ""},
	"no connection is left": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		var open []*pgx.Conn
		for {
			connection, err := d.loginWith(t.Context(), d.fixture.secret())
			if err == nil {
				open = append(open, connection)
				continue
			}
			if len(open) == 0 || !strings.Contains(err.Error(), "53300") {
				t.Fatalf("after %d connections: %v", len(open), err)
			}
			break
		}
		return func() {
			for _, connection := range open {
				_ = connection.Close(context.Background())
			}
		}
	}, ""},
	"a client locks its role for ever": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		connection, err := d.loginWith(t.Context(), d.fixture.secret())
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{"begin", "set role app", "alter role app set work_mem = '5MB'", "lock table orders"} {
			exec(t, connection, sql)
		}
		return func() { _ = connection.Close(context.Background()) }
	}, ""},
	"every process is slow": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		return stopOften(t, d.running)
	}, ""},
	"the kernel kills a process because memory is short": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.login(t) // a session
		killed := false
		for _, process := range d.running.Processes() {
			line, _ := os.ReadFile(process.CommandLine)
			if strings.Contains(string(line), "postgres: app") {
				killed = syscall.Kill(process.ID, syscall.SIGKILL) == nil || killed
			}
		}
		if !killed {
			t.Error("no process of a session was killed")
		}
		return func() {}
	}, ""},
	"the clock jumps ten years ahead": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.machine.SetClock(t, 10*365*24*time.Hour)
		return func() { d.machine.SetClock(t, 0) }
	}, ""},
	"the clock jumps a day back": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.machine.SetClock(t, -24*time.Hour)
		return func() { d.machine.SetClock(t, 0) }
	}, ""},
	"a user breaks pg_hba.conf, and PostgreSQL crashes": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		d.damage(t, "pg_hba.conf", 0, "nonsense\n")
		d.crash(t)
		return func() {}
	}, ""},
	"a user sets a parameter with which PostgreSQL does not start": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		path := filepath.Join(d.liveServer.pod.Path(dataVolume), "pgdata", "postgresql.auto.conf")
		if err := os.WriteFile(path, []byte("shared_buffers = '4000GB'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.crash(t)
		return func() {
			if !strings.Contains(d.running.Log(), "does not start with the parameters that ALTER SYSTEM has set") {
				t.Errorf("PostgreSQL runs with the parameters of ALTER SYSTEM; its log:\n%s", d.running.Log())
			}
		}
	}, ""},
	"a page of a table is damaged": {func(t *testing.T, d *failingDatabase) func() {
		t.Helper()
		connection := d.login(t)
		exec(t, connection, "create table damaged as select 1 as id")
		path := askIn(t, connection, "select pg_relation_filepath('damaged')")
		exec(t, d.superuser(t), "checkpoint") // so that the recovery does not overwrite the page
		d.crash(t)                            // so that no buffer has the page
		d.damage(t, path, 4000, "damage")
		return func() {
			connection, err := d.loginWith(t.Context(), d.fixture.secret())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close(context.Background())
			_, err = connection.Exec(t.Context(), "select * from damaged")
			if err == nil || !strings.Contains(err.Error(), "XX001") {
				t.Errorf("reading the damaged table: %v", err)
			}
		}
	}, ""},
}

// stopOften stops the processes of PostgreSQL for nine tenths of the time, until end is called or the test ends.
func stopOften(t *testing.T, running *postgres.Container) (end func()) {
	t.Helper()
	ends, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			signalServer(running, syscall.SIGSTOP)
			over := waitOr(ends, 900*time.Millisecond)
			signalServer(running, syscall.SIGCONT)
			if over || waitOr(ends, 100*time.Millisecond) {
				return
			}
		}
	}()
	end = sync.OnceFunc(func() {
		close(ends)
		<-ended
	})
	t.Cleanup(end)
	return end
}

// waitOr waits, and reports whether ends was closed meanwhile.
func waitOr(ends <-chan struct{}, pause time.Duration) bool {
	select {
	case <-ends:
		return true
	case <-time.After(pause):
		return false
	}
}

func signalServer(running *postgres.Container, signal syscall.Signal) {
	for _, process := range running.Processes() {
		if process.Program == "postgres" {
			_ = syscall.Kill(process.ID, signal) // the process may have ended
		}
	}
}

// damage overwrites a part of a file in the data directory.
func (d *failingDatabase) damage(t *testing.T, path string, offset int64, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(d.liveServer.pod.Path(dataVolume), "pgdata", path), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte(text), offset); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// crash kills all processes of the container.
func (d *failingDatabase) crash(t *testing.T) {
	t.Helper()
	d.running.Kill()
}

// step reconciles once, and does what the kubelet does. It fails the test if the server rejects the login in the
// connection Secret.
func (d *failingDatabase) step(t *testing.T) {
	t.Helper()
	select {
	case <-d.running.Ended():
		d.report(corev1.ContainerStatus{Name: containerName, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
		}, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: d.liveServer.pod.TerminationMessage(),
		}}})
		d.operate(t)
		d.launch(t)
	default:
		ready := d.running.Probe(t.Context(), d.container().ReadinessProbe) == nil
		d.report(corev1.ContainerStatus{Name: containerName, Ready: ready, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(d.Clock.Now().Truncate(time.Hour))},
		}})
	}
	d.operate(t)
	connection, err := d.loginWith(t.Context(), d.fixture.secret())
	if err == nil {
		_ = connection.Close(t.Context())
		return
	}
	if strings.Contains(err.Error(), "28P01") || strings.Contains(err.Error(), "28000") {
		t.Fatalf("the server rejects the login in the connection Secret: %v; its log:\n%s", err, d.running.Log())
	}
}

// report sets the status of the Pod, and of its StatefulSet.
func (d *failingDatabase) report(status corev1.ContainerStatus) {
	replicas := int32(0)
	if status.Ready {
		replicas = 1
	}
	d.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = replicas })
	kindtest.Change(d.Cluster, "default", "shop-0", func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	})
}

// stepUntil calls step until holds returns true.
func (d *failingDatabase) stepUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	framework.Eventually(t, what, func(context.Context) (bool, error) {
		d.step(t)
		return holds(), nil
	})
}

var failureSteps = flag.Int("database.failuresteps", 1,
	"the number of steps of a rotation at which each failure begins")

// TestRotationSurvivesFailures begins each failure at steps of a rotation. While the failure lasts, and after its end,
// the server never rejects the login in the connection Secret. After its end, the rotation ends, the previous login is
// retired, changes of the settings take effect, and no data is lost.
func TestRotationSurvivesFailures(t *testing.T) {
	t.Parallel()
	for name, f := range failures {
		for at := range *failureSteps {
			t.Run(name+" at step "+strconv.Itoa(at), func(t *testing.T) {
				t.Parallel()
				d := newFailingDatabase(t)
				previous := d.fixture.secret()
				d.Change(func(db *v1alpha1.Database) {
					metav1.SetMetaDataAnnotation(&db.ObjectMeta, credentials.RotateAnnotation, "1")
				})
				for range at {
					d.step(t)
				}
				end := f.begin(t, d)
				d.endure(t, f.says)
				end()
				d.complete(t, previous)
			})
		}
	}
}

// newFailingDatabase returns a Database with a table of 100 rows.
func newFailingDatabase(t *testing.T) *failingDatabase {
	t.Helper()
	d := &failingDatabase{}
	d.liveDatabase = newLiveDatabase(t, func(live *liveDatabase) {
		d.machine = live.liveServer.pod.OnMachine(t, dataVolume)
		d.machine.Limit(t, 4000*mebibyte)
	})
	exec(t, d.login(t), "create table orders as select i as id from generate_series(1, 100) i")
	return d
}

// endure lets the failure last for some steps, and until the status says what it must say.
func (d *failingDatabase) endure(t *testing.T, says string) {
	t.Helper()
	steps, message := 0, ""
	d.stepUntil(t, cmp.Or(says, "some steps"), func() bool {
		if steps++; steps > 10 {
			d.Clock.Step(time.Minute)
		}
		message = d.ready().Message
		return steps > 20 && strings.Contains(message, says)
	})
	t.Logf("during the failure, the Database says: %s: %s", d.reason(), message)
}

// complete waits until the rotation has ended, and checks that nothing is lost.
func (d *failingDatabase) complete(t *testing.T, previous *corev1.Secret) {
	t.Helper()
	next := func() *corev1.Secret { return d.fixture.secret() }
	d.stepUntil(t, "the Secret to have another login", func() bool {
		d.Clock.Step(time.Second)
		return string(next().Data[credentials.KeyUsername]) != string(previous.Data[credentials.KeyUsername])
	})
	d.liveServer.secret = next()
	d.Clock.Step(credentials.DefaultGracePeriod + time.Second)
	d.stepUntil(t, "the server to reject the previous login", func() bool {
		d.Clock.Step(time.Second)
		connection, err := d.loginWith(t.Context(), previous)
		if err == nil {
			_ = connection.Close(t.Context())
		}
		return err != nil && (strings.Contains(err.Error(), "28000") || strings.Contains(err.Error(), "28P01"))
	})
	d.Change(workMem("11MB"))
	d.stepUntil(t, "the changed parameter", func() bool {
		d.Clock.Step(time.Second)
		connection, err := d.loginWith(t.Context(), next())
		if err != nil {
			return false
		}
		defer connection.Close(t.Context())
		var memory string
		return connection.QueryRow(t.Context(), "show work_mem").Scan(&memory) == nil && memory == "11MB"
	})
	d.stepUntil(t, "the Database to be Ready", func() bool {
		d.Clock.Step(time.Second)
		return d.ready().Status == metav1.ConditionTrue
	})
	d.wants(t, "select count(*) from orders", "100")
	exec(t, d.login(t), "insert into orders values (101)")
}
