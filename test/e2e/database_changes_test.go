//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

const serverStart = "select pg_postmaster_start_time()"

// keepSecret copies the credentials of the Database to another Secret, and returns the name of the copy.
func (d *database) keepSecret(t *testing.T) string {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "previous-"}, Data: here.Credentials(t, d.namespace, "shop").Data,
	}
	secret, err := here.Kube.CoreV1().Secrets(d.namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Name
}

// wantRejected fails the test unless the server rejects the credentials in a Secret.
func (d *database) wantRejected(t *testing.T, secret string) {
	t.Helper()
	if got, failed := d.query(t, secret, "select 1"); !failed || !strings.Contains(got, "password authentication failed") {
		t.Errorf("with the previous login psql prints %q, want an authentication error", got)
	}
}

func TestDeletingSecretChangesPassword(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	previous, start := d.keepSecret(t), d.only(t, serverStart)
	uid := here.Credentials(t, d.namespace, "shop").UID
	d.kubectl(t, "delete", "secret", "shop-credentials")
	framework.Eventually(t, "the new Secret", func(ctx context.Context) (bool, error) {
		secret, err := here.Kube.CoreV1().Secrets(d.namespace).Get(ctx, "shop-credentials", metav1.GetOptions{})
		return err == nil && secret.UID != uid, framework.IgnoreNotFound(err)
	})
	d.accepts(t, "with the new password")
	d.wantRejected(t, previous)
	d.kubectl(t, "patch", "secret", "shop-credentials", "-p", `{"stringData":{"password":"it's $HOME: \\ \"quoted\""}}`)
	d.accepts(t, "with a password that a user has set")
	d.wantQuery(t, "after two changes of the password", serverStart, start)
}

// accepts waits until the server accepts the credentials in the Secret.
func (d *database) accepts(t *testing.T, when string) {
	t.Helper()
	framework.Eventually(t, "the server to accept a login "+when, func(context.Context) (bool, error) {
		got, failed := d.query(t, "shop-credentials", "select 1")
		return !failed && got == "1", nil
	})
}

// only returns the result of a query that must succeed.
func (d *database) only(t *testing.T, sql string) string {
	t.Helper()
	got, failed := d.query(t, "shop-credentials", sql)
	if failed {
		t.Fatalf("%q fails: %s", sql, got)
	}
	return got
}

func TestDatabaseReportsServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	d, spec := &database{namespace: here.NewNamespace(t)}, postgresSpec()
	spec.Parameters = map[string]v1alpha1.ParameterValue{"shared_buffers": "nonsense"}
	here.CreateDatabase(t, d.namespace, "shop", spec)
	failed := here.DatabaseReason(t, d.namespace, "shop", "CrashLoopBackOff")
	if ready := meta.FindStatusCondition(failed.Status.Conditions,
		"Ready"); failed.Status.Phase != v1alpha1.DatabaseFailed ||
		!strings.HasPrefix(ready.Message,
			`PostgreSQL does not start: invalid value for parameter "shared_buffers": "nonsense".`) {
		t.Errorf("the phase is %s, with the message %q", failed.Status.Phase, ready.Message)
	}
	if log := d.kubectl(t, "logs", "shop-0"); !strings.Contains(log, `invalid value for parameter "shared_buffers"`) {
		t.Errorf("the server's log does not name the parameter: %s", log)
	}
	d.update(t, func(db *v1alpha1.Database) { db.Spec.Parameters = nil })
	d.ready(t)
	d.wantQuery(t, "after the spec was corrected", "select 1", "1")

	d.update(t, func(db *v1alpha1.Database) { db.Spec.Image = "nowhere.invalid/postgres:0" })
	here.DatabaseReason(t, d.namespace, "shop", "ImagePullBackOff")
	d.update(t, func(db *v1alpha1.Database) { db.Spec = postgresSpec() })
	d.ready(t)
}

func TestRejectedParameterLeavesServerRunning(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	start, uid := d.only(t, serverStart), d.podUID(t)
	d.update(t, func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "nonsense"}
	})
	rejected := here.DatabaseReason(t, d.namespace, "shop", "SettingsRejected")
	if ready := meta.FindStatusCondition(rejected.Status.Conditions, "Ready"); !strings.Contains(ready.Message,
		`invalid value for parameter "work_mem": "nonsense"`) {
		t.Errorf("the message is %q", ready.Message)
	}
	d.wantQuery(t, "with a rejected parameter", serverStart, start)
	d.update(t, func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"max_connections": "50"}
	})
	d.ready(t)
	d.wantQuery(t, "after a parameter that needs a restart", "show max_connections", "50")
	if d.podUID(t) != uid {
		t.Error("a parameter that needs a restart has replaced the Pod")
	}
}

// attempts counts the successful and failed logins that the Pods of an App print.
type attempts struct {
	sync.Mutex
	ok, failed int
	lines      []string // of the failed logins
}

// follow reads the logs of all Pods of an App until the test ends. Each line that does not begin with "ok" is a
// failure.
func (a *attempts) follow(t *testing.T, namespace, name string) {
	t.Helper()
	watch, err := here.Kube.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{
		LabelSelector: "windlass.dev/app=" + name,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	go func() {
		known := map[types.UID]bool{}
		for event := range watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning && !known[pod.UID] {
				known[pod.UID] = true
				go a.read(t.Context(), namespace, pod.Name)
			}
		}
	}()
}

func (a *attempts) read(ctx context.Context, namespace, pod string) {
	stream, err := here.Kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		a.add("reading the log: " + err.Error())
		return
	}
	defer stream.Close()
	for scanner := bufio.NewScanner(stream); scanner.Scan(); {
		a.add(scanner.Text())
	}
}

func (a *attempts) add(line string) {
	a.Lock()
	defer a.Unlock()
	if strings.HasPrefix(line, "ok") {
		a.ok++
		return
	}
	a.failed++
	a.lines = append(a.lines, line)
}

// passed waits for the given number of further logins, and fails the test if a login failed.
func (a *attempts) passed(t *testing.T, when string, more int) {
	t.Helper()
	a.Lock()
	enough := a.ok + more
	a.Unlock()
	framework.Eventually(t, fmt.Sprintf("%d more logins %s", more, when), func(context.Context) (bool, error) {
		a.Lock()
		defer a.Unlock()
		return a.ok >= enough || a.failed > 0, nil
	})
	a.Lock()
	defer a.Unlock()
	if a.failed > 0 {
		t.Fatalf("%s, %d of %d connections failed: %s", when, a.failed, a.ok+a.failed, strings.Join(a.lines, "\n"))
	}
	t.Logf("%s: %d connections, 0 failed", when, a.ok)
}

// client logs in repeatedly, and inserts a row after each login. After SIGTERM, it ends between two logins.
const client = `
trap 'exit 0' TERM
while :; do
  out=$(psql "$DATABASE_URL" -qAt -v ON_ERROR_STOP=1 -c "insert into rows values ('$HOSTNAME')" 2>&1) &&
  echo ok || echo "failed:" $out
done`

// newClients creates an App that runs client in two Pods, and waits until it is Ready.
func (d *database) newClients(t *testing.T) *attempts {
	t.Helper()
	logins := &attempts{}
	logins.follow(t, d.namespace, "client")
	here.CreateApp(t, d.namespace, "client", v1alpha1.AppSpec{
		Image: psqlImage(), Command: []string{"sh", "-c", client}, Replicas: ptr.To[int32](2),
		DatabaseRef: &v1alpha1.DatabaseReference{Name: "shop"},
	})
	here.AppIn(t, d.namespace, "client", v1alpha1.AppReady)
	return logins
}

// TestRotationAndReloadUnderApp rotates the credentials, and changes a parameter, while the Pods of an App log in as
// fast as they can.
func TestRotationAndReloadUnderApp(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.update(t, func(db *v1alpha1.Database) {
		db.Spec.Credentials = &v1alpha1.CredentialsSpec{GracePeriod: &metav1.Duration{Duration: 20 * time.Second}}
	})
	d.wantQuery(t, "at first", "create table rows (pod text)", "")
	start, previous := d.only(t, serverStart), d.keepSecret(t)
	logins := d.newClients(t)
	logins.passed(t, "before the rotations", 10)
	for rotation := range 3 {
		d.kubectl(t, "annotate", "database", "shop", "--overwrite", "windlass.dev/rotate-credentials="+strconv.Itoa(rotation))
		here.DatabaseWith(t, d.namespace, "shop", "rotated", func(db *v1alpha1.Database) bool {
			c := db.Status.Credentials
			return c != nil && c.LastRotationTime != nil && c.PreviousUsername == "" && c.WaitingFor == "" &&
				c.Username == "app-login"+strconv.Itoa(rotation%2+1)
		})
		logins.passed(t, fmt.Sprintf("after rotation %d", rotation+1), 10)
	}
	d.wantRejected(t, previous)
	d.update(t, func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "9MB"}
	})
	d.ready(t)
	logins.passed(t, "after the reload", 10)
	d.wantQuery(t, "after the reload", "show work_mem", "9MB")
	d.wantQuery(t, "after the rotations and the reload", serverStart, start)
	logins.Lock()
	defer logins.Unlock()
	if written, err := strconv.Atoi(d.only(t, "select count(*) from rows")); err != nil || written < logins.ok {
		t.Errorf("%d rows were acknowledged, and %d exist (%v)", logins.ok, written, err)
	}
}

// TestEveryConnectionIsEncrypted connects as an App without settings of its own does, and without TLS. Then it deletes
// the CA: clients trust both CAs, and no login fails.
func TestEveryConnectionIsEncrypted(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.wantQuery(t, "with the uri", "select ssl from pg_stat_ssl where pid = pg_backend_pid()", "t")
	plain := here.Credentials(t, d.namespace, "shop")
	plain.ObjectMeta = metav1.ObjectMeta{Name: "plain"}
	plain.Data["uri"] = bytes.ReplaceAll(plain.Data["uri"], []byte("verify-full"), []byte("disable"))
	if _, err := here.Kube.CoreV1().Secrets(d.namespace).Create(t.Context(), plain, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, failed := d.query(t, "plain", "select 1"); !failed || !strings.Contains(got, "no encryption") {
		t.Errorf("without TLS, psql prints %q, want an error", got)
	}
	d.wantQuery(t, "at first", "create table rows (pod text)", "")
	logins := d.newClients(t)
	logins.passed(t, "before the CA is deleted", 10)
	d.kubectl(t, "delete", "secret", "shop-certificate")
	framework.Eventually(t, "two CAs", func(context.Context) (bool, error) {
		return bytes.Count(here.Credentials(t, d.namespace, "shop").Data["ca.crt"], []byte("BEGIN")) == 2, nil
	})
	logins.passed(t, "after the CA was deleted", 10)
	here.AppIn(t, d.namespace, "client", v1alpha1.AppReady)
	logins.passed(t, "after the rollout", 10)
}

// TestKilledServerLosesNoRow kills PostgreSQL with SIGKILL while a client writes.
func TestKilledServerLosesNoRow(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.wantQuery(t, "at first", "create table rows (id text)", "")
	restarts := func() int32 {
		pod, err := here.Kube.CoreV1().Pods(d.namespace).Get(t.Context(), "shop-0", metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			t.Fatalf("the Pod has no status of its container: %v", err)
		}
		return pod.Status.ContainerStatuses[0].RestartCount
	}
	before := restarts()
	var writes attempts
	writes.follow(t, d.namespace, "client")
	here.CreateApp(t, d.namespace, "client", v1alpha1.AppSpec{
		Image: psqlImage(), DatabaseRef: &v1alpha1.DatabaseReference{Name: "shop"},
		Command: []string{"sh", "-c", `trap 'exit 0' TERM; n=0
while :; do
  n=$((n + 1))
  psql "$DATABASE_URL" -qAt -v ON_ERROR_STOP=1 -c "insert into rows values ('$HOSTNAME $n')" >/dev/null 2>&1 &&
    echo "ok $n" || sleep 0.1
done`},
	})
	here.AppIn(t, d.namespace, "client", v1alpha1.AppReady)
	writes.passed(t, "before the server is killed", 10)
	d.kubectl(t, "exec", "shop-0", "--", "sh", "-c", `kill -KILL "$(head -n 1 "$PGDATA/postmaster.pid")"`)
	killed := time.Now()
	framework.Eventually(t, "the container to be restarted", func(context.Context) (bool, error) {
		return restarts() > before, nil
	})
	writes.passed(t, "after the server was killed", 1)
	t.Logf("the server served again %s after SIGKILL", time.Since(killed).Round(100*time.Millisecond))
	writes.passed(t, "later", 10)
	d.ready(t)
	writes.Lock()
	defer writes.Unlock()
	if written, err := strconv.Atoi(d.only(t, "select count(*) from rows")); err != nil || written < writes.ok {
		t.Errorf("%d rows were acknowledged, and %d exist (%v)", writes.ok, written, err)
	}
}

// psqlImage returns an image that contains psql and runs as a user other than root.
func psqlImage() string { return cmp.Or(os.Getenv("E2E_PSQL_IMAGE"), "bitnamilegacy/postgresql:17") }
