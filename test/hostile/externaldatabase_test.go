//go:build integration

package hostile

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/postgres"
	"windlass.dev/windlass/test/world"
)

// maxForeignStatus is what the conditions of a status may have, in bytes: three repeat the 1 KiB that
// is kept of a server's words, and some words of the operator's.
const maxForeignStatus = 3 * (1<<10 + 512)

// playsServer plays a script on this machine.
func playsServer(t *testing.T, host string, script postgres.Script) *postgres.Scripted {
	t.Helper()
	s, err := postgres.Play(host, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// namesServer has a tenant name a server, by an ExternalDatabase and a Secret that are called name.
func namesServer(t *testing.T, tenant *place.Tenant, name, host, port string, more ...string) {
	t.Helper()
	data := map[string]string{"host": host, "port": port, "username": "admin-of-secret", "password": "canary-of-secret", "sslmode": "disable"}
	for n := 0; n < len(more); n += 2 {
		data[more[n]] = more[n+1]
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	unique := name + "-" + tenant.Namespace
	tenant.CreateExternalDatabase(t, tenant.Namespace, name, v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: name}, DatabaseName: unique, Owner: unique,
	})
}

// saidOf is all that a status says.
func saidOf(db *v1alpha1.ExternalDatabase) string {
	var all strings.Builder
	for _, condition := range db.Status.Conditions {
		all.WriteString(condition.Message)
	}
	return all.String()
}

func TestTheWordsOfAPostgreSQLServerAreCut(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	for name, script := range map[string]postgres.Script{
		"talks":     postgres.Refuses("28000", strings.Repeat("admin-of-secret\n", 4<<16)),
		"talks-on":  postgres.Refuses("28000", strings.Repeat("admin-of-secret\n", 500)),
		"floods":    postgres.Flood(),
		"is-no-one": postgres.Says(strings.Repeat("\xff", 1<<20)),
	} {
		namesServer(t, tenant, name, "127.0.0.1", playsServer(t, "127.0.0.1", script).Port)
		db := tenant.ExternalDatabaseWith(t, tenant.Namespace, name, "an error", func(db *v1alpha1.ExternalDatabase) bool {
			return strings.Contains(saidOf(db), "server") && db.Status.Binding != nil && !strings.Contains(saidOf(db), "about to be made")
		})
		if text := saidOf(db); len(text) > maxForeignStatus || strings.Contains(text, "of-secret") || strings.Contains(text, "127.0.0.1") {
			t.Errorf("%s: the status has %d bytes: %.500s", name, len(text), text)
		}
	}
	canary(t, shared)
}

// TestServersThatAreForgottenTakeNoMemory names many servers that talk, and deletes the
// objects again.
func TestServersThatAreForgottenTakeNoMemory(t *testing.T) {
	tenant := shared.NewTenant(t)
	talks := playsServer(t, "127.0.0.1", postgres.Refuses("57P03", strings.Repeat("x", 4<<20)))
	before := controller.Heap(t)
	const servers = 160
	for n := range servers {
		namesServer(t, tenant, fmt.Sprintf("db-%d", n), fmt.Sprintf("127.77.%d.%d", n/250, n%250+1), talks.Port)
	}
	for n := range 10 {
		namesServer(t, tenant, fmt.Sprintf("here-%d", n), "127.0.0.1", talks.Port)
	}
	for n := range servers {
		tenant.ExternalDatabaseReason(t, tenant.Namespace, fmt.Sprintf("db-%d", n), "ServerUnreachable")
	}
	if err := tenant.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("externaldatabases")).Namespace(tenant.Namespace).
		DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, "all to be gone", func(ctx context.Context) (bool, error) {
		list, err := tenant.Windlass.WindlassV1alpha1().ExternalDatabases(tenant.Namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
	if grown := (controller.Heap(t) - before) >> 20; grown > 20 {
		t.Errorf("%d MiB are kept", grown)
	}
}

// TestSlowServersDoNotStarveAnotherTenant counts the workers that are at slow servers.
func TestSlowServersDoNotStarveAnotherTenant(t *testing.T) {
	t.Parallel()
	real, err := postgres.NewServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(real.Remove)
	hostile, other := shared.NewTenant(t), shared.NewTenant(t)
	var (
		slow     [12]*postgres.Scripted
		at, most atomic.Int32
	)
	for n := range slow {
		slow[n] = playsServer(t, "127.0.0.1", func(conn net.Conn) {
			if now := at.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer at.Add(-1)
			postgres.Slow(3 * time.Second)(conn)
		})
		namesServer(t, hostile, fmt.Sprintf("slow-%d", n), "127.0.0.1", slow[n].Port)
	}
	world.Eventually(t, "a worker to be at a slow server", func(context.Context) (bool, error) { return at.Load() > 0, nil })
	namesServer(t, other, "shop", "127.0.0.1", real.Port, "username", "postgres", "password", real.Password)
	other.ExternalDatabaseIn(t, other.Namespace, "shop", v1alpha1.ExternalDatabaseReady)
	// Two visits, and what pgconn does in the background to cancel two others.
	if most.Load() > 6 {
		t.Errorf("%d connections were to slow servers of a tenant at once", most.Load())
	}
}

func TestALoginThatCostsTooMuchIsNotBegun(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	var begun atomic.Bool
	namesServer(t, tenant, "bomb", "127.0.0.1", playsServer(t, "127.0.0.1", postgres.Bomb(10_000_000, func() { begun.Store(true) })).Port)
	db := tenant.ExternalDatabaseReason(t, tenant.Namespace, "bomb", "Rejected")
	if !strings.Contains(saidOf(db), "10000000 iterations of SCRAM, and 100000 are computed at most") || begun.Load() {
		t.Errorf("the login was begun: %v; it is said: %s", begun.Load(), saidOf(db))
	}
}

// TestAViewerOfAStatusLearnsNothingOfTheSecret is of a user with the role view, who may read
// no Secret, and of a server that repeats what it is told.
func TestAViewerOfAStatusLearnsNothingOfTheSecret(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	viewer := shared.TenantIn(t, tenant.Namespace, "view")
	if _, err := viewer.Kube.CoreV1().Secrets(tenant.Namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Fatal("a viewer may read Secrets")
	}
	nobody, port, _ := net.SplitHostPort(place.OwnAddress())
	repeats := playsServer(t, "127.0.0.1", postgres.Refuses("28P01", `password "canary-of-secret" of user "admin-of-secret" at 127.0.0.1 is wrong`))
	namesServer(t, tenant, "refused", "127.0.0.1", repeats.Port)
	namesServer(t, tenant, "nobody", nobody, port)
	for name, reason := range map[string]string{"refused": "LoginRefused", "nobody": "ServerUnreachable"} {
		tenant.ExternalDatabaseReason(t, tenant.Namespace, name, reason)
		db, err := viewer.Windlass.WindlassV1alpha1().ExternalDatabases(tenant.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []string{"-of-secret", "127.0.0.1", nobody, port, repeats.Port} {
			if strings.Contains(saidOf(db), hidden) {
				t.Errorf("%s is told: %s", hidden, saidOf(db))
			}
		}
	}
}

// TestByDefaultNothingOfTheOperatorsIsReached runs a controller without the flag that allows
// servers on this machine.
func TestByDefaultNothingOfTheOperatorsIsReached(t *testing.T) {
	t.Parallel()
	on := place.Own(t)
	p := place.Launch(t, on.Cluster, "--external-database-allowed-hosts=")
	defer p.Terminate()
	tenant := on.NewTenant(t)
	loopback := playsServer(t, "127.0.0.1", postgres.Silence)
	apiHost, apiPort, _ := net.SplitHostPort(strings.TrimPrefix(on.Config().Host, "https://"))
	forbidden := map[string][2]string{
		"loopback": {"127.0.0.1", loopback.Port}, "name": {"localhost", loopback.Port}, "mapped": {"::ffff:127.0.0.1", loopback.Port},
		"metadata": {"169.254.169.254", "80"}, "nat64": {"64:ff9b::a9fe:a9fe", "80"}, "zero": {"0.0.0.0", loopback.Port}, "api": {apiHost, apiPort},
	}
	for name, at := range forbidden {
		namesServer(t, tenant, name, at[0], at[1])
	}
	for name := range forbidden {
		on.ExternalDatabaseReason(t, tenant.Namespace, name, "HostNotAllowed")
	}
	if _, total := loopback.Connections(); total > 0 {
		t.Errorf("%d connections were made", total)
	}
	whatAnswersIsNotTold(t, on, tenant)
	canary(t, on)
}

// whatAnswersIsNotTold checks that the status is the same whatever is at an address, by
// addresses of this machine that are not special. Where there are none, pkg/postgresql alone
// shows it.
func whatAnswersIsNotTold(t *testing.T, on *place.Place, tenant *place.Tenant) {
	t.Helper()
	host := ownHost(t)
	if host == "" {
		return
	}
	for name, script := range map[string]postgres.Script{
		"resets": postgres.Hangup, "is-silent": postgres.Silence, "is-http": postgres.Says("HTTP/1.1 400 Bad Request\r\n\r\n"), "is-ssh": postgres.Says("SSH-2.0-OpenSSH\r\n"),
	} {
		namesServer(t, tenant, name, host, playsServer(t, host, script).Port)
	}
	closed := playsServer(t, host, postgres.Silence)
	closed.Close()
	namesServer(t, tenant, "refuses", host, closed.Port)
	told := map[string]string{}
	for _, name := range []string{"resets", "is-silent", "is-http", "is-ssh", "refuses"} {
		db := on.ExternalDatabaseReason(t, tenant.Namespace, name, "ServerUnreachable")
		told[strings.ReplaceAll(saidOf(db), "Secret "+name, "Secret X")] = name
	}
	if len(told) != 1 {
		t.Errorf("the status tells what answers: %v", told)
	}
}

// ownHost is an address of this machine that others could have, or empty.
func ownHost(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	return ""
}
