//go:build integration

package security

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
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// maxForeignMessage is the largest allowed size of a condition message, in bytes: 1 KiB of a server's message, plus 256
// bytes of the operator's text.
const maxForeignMessage = 1<<10 + 256

// startServer starts a fake PostgreSQL server that runs a script. The server stops at the end of the test.
func startServer(t *testing.T, host string, script postgres.Script) *postgres.Scripted {
	t.Helper()
	s, err := postgres.Play(host, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// useServer creates, as the tenant, an ExternalDatabase on a server, and its connection Secret. Both have the given
// name. more contains pairs of a key and a value that override the data of the Secret.
func useServer(t *testing.T, tenant *framework.Tenant, name, host, port string, more ...string) {
	t.Helper()
	data := map[string]string{
		"host": host, "port": port, "username": "admin-of-secret", "password": "canary-of-secret", "sslmode": "disable",
	}
	for n := 0; n < len(more); n += 2 {
		data[more[n]] = more[n+1]
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	_, err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unique := name + "-" + tenant.Namespace
	tenant.CreateExternalDatabase(t, tenant.Namespace, name, v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: name}, DatabaseName: unique, Owner: unique,
	})
}

// messagesOf returns the concatenated messages of all conditions.
func messagesOf(db *v1alpha1.ExternalDatabase) string {
	var all strings.Builder
	for _, condition := range db.Status.Conditions {
		all.WriteString(condition.Message)
	}
	return all.String()
}

func TestStatusTruncatesServerMessages(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	for name, script := range map[string]postgres.Script{
		"talks":     postgres.Rejects("28000", strings.Repeat("admin-of-secret\n", 4<<16)),
		"talks-on":  postgres.Rejects("28000", strings.Repeat("admin-of-secret\n", 500)),
		"floods":    postgres.Flood(),
		"is-no-one": postgres.Says(strings.Repeat("\xff", 1<<20)),
	} {
		useServer(t, tenant, name, "127.0.0.1", startServer(t, "127.0.0.1", script).Port)
		db := tenant.ExternalDatabaseWith(t, tenant.Namespace, name, "an error", func(db *v1alpha1.ExternalDatabase) bool {
			return strings.Contains(messagesOf(db), "server") && db.Status.Binding != nil &&
				!strings.Contains(messagesOf(db), "is about to create role")
		})
		for _, c := range db.Status.Conditions {
			if len(c.Message) > maxForeignMessage || strings.Contains(c.Message, "of-secret") ||
				strings.Contains(c.Message, "127.0.0.1") {
				t.Errorf("%s: the message of %s has %d bytes: %.500s", name, c.Type, len(c.Message), c.Message)
			}
		}
	}
	canary(t, shared)
}

// TestForgottenServersUseNoMemory uses many servers that send large errors, and then deletes the
// ExternalDatabases.
func TestForgottenServersUseNoMemory(t *testing.T) {
	tenant := shared.NewTenant(t)
	talks := startServer(t, "127.0.0.1", postgres.Rejects("57P03", strings.Repeat("x", 4<<20)))
	before := controller.Heap(t)
	const servers = 160
	for n := range servers {
		useServer(t, tenant, fmt.Sprintf("db-%d", n), fmt.Sprintf("127.77.%d.%d", n/250, n%250+1), talks.Port)
	}
	for n := range 10 {
		useServer(t, tenant, fmt.Sprintf("here-%d", n), "127.0.0.1", talks.Port)
	}
	for n := range servers {
		tenant.ExternalDatabaseReason(t, tenant.Namespace, fmt.Sprintf("db-%d", n), "ServerUnreachable")
	}
	if err := tenant.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("externaldatabases")).
		Namespace(tenant.Namespace).
		DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "all ExternalDatabases to be deleted", func(ctx context.Context) (bool, error) {
		list, err := tenant.Windlass.WindlassV1alpha1().ExternalDatabases(tenant.Namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
	if grown := (controller.Heap(t) - before) >> 20; grown > 20 {
		t.Errorf("the heap has grown by %d MiB, want at most 20", grown)
	}
}

// TestSlowServersDoNotStarveOtherTenant counts the simultaneous connections to slow servers.
func TestSlowServersDoNotStarveOtherTenant(t *testing.T) {
	t.Parallel()
	real, err := postgres.NewServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(real.Remove)
	hostile, other := shared.NewTenant(t), shared.NewTenant(t)
	var (
		slow       [12]*postgres.Scripted
		open, most atomic.Int32
	)
	for n := range slow {
		slow[n] = startServer(t, "127.0.0.1", func(conn net.Conn) {
			if now := open.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer open.Add(-1)
			postgres.Slow(3 * time.Second)(conn)
		})
		useServer(t, hostile, fmt.Sprintf("slow-%d", n), "127.0.0.1", slow[n].Port)
	}
	framework.Eventually(t, "a connection to a slow server", func(context.Context) (bool, error) {
		return open.Load() > 0, nil
	})
	useServer(t, other, "shop", "127.0.0.1", real.Port, "username", "postgres", "password", real.Password)
	other.ExternalDatabaseIn(t, other.Namespace, "shop", v1alpha1.ExternalDatabaseReady)
	// Two reconciles have connections, and pgconn cancels the queries of two other reconciles in the background.
	if most.Load() > 6 {
		t.Errorf("%d connections to slow servers of one tenant were open at once, want at most 6", most.Load())
	}
}

func TestOperatorRejectsExpensiveLogin(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	var begun atomic.Bool
	useServer(t, tenant, "bomb", "127.0.0.1",
		startServer(t, "127.0.0.1", postgres.Bomb(10_000_000, func() { begun.Store(true) })).Port)
	db := tenant.ExternalDatabaseReason(t, tenant.Namespace, "bomb", "Rejected")
	if !strings.Contains(messagesOf(db), "10000000 SCRAM iterations, but the operator computes at most 100000") ||
		begun.Load() {
		t.Errorf("the login was computed: %v; the conditions: %s", begun.Load(), messagesOf(db))
	}
}

// TestStatusHidesConnectionSecretFromViewer reads the status as a user with the role view, who may not read Secrets.
// The error message of the server contains the user name and the password.
func TestStatusHidesConnectionSecretFromViewer(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	viewer := shared.TenantIn(t, tenant.Namespace, "view")
	if _, err := viewer.Kube.CoreV1().Secrets(tenant.Namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Fatal("a viewer may read Secrets")
	}
	nobody, port, _ := net.SplitHostPort(framework.OwnAddress())
	repeats := startServer(t, "127.0.0.1",
		postgres.Rejects("28P01", `password "canary-of-secret" of user "admin-of-secret" at 127.0.0.1 is wrong`))
	useServer(t, tenant, "rejected", "127.0.0.1", repeats.Port)
	useServer(t, tenant, "nobody", nobody, port)
	for name, reason := range map[string]string{"rejected": "LoginRejected", "nobody": "ServerUnreachable"} {
		tenant.ExternalDatabaseReason(t, tenant.Namespace, name, reason)
		db, err := viewer.Windlass.WindlassV1alpha1().ExternalDatabases(tenant.Namespace).Get(t.Context(), name,
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []string{"-of-secret", "127.0.0.1", nobody, port, repeats.Port} {
			if strings.Contains(messagesOf(db), hidden) {
				t.Errorf("the status contains %s: %s", hidden, messagesOf(db))
			}
		}
	}
}

// TestOperatorRejectsInternalAddressesByDefault runs a controller that does not allow servers on this machine, unlike
// the controller that other tests use.
func TestOperatorRejectsInternalAddressesByDefault(t *testing.T) {
	t.Parallel()
	on := framework.Own(t)
	p := framework.Launch(t, on.Cluster, "--external-database-allowed-hosts=")
	defer p.Terminate()
	tenant := on.NewTenant(t)
	loopback := startServer(t, "127.0.0.1", postgres.Silence)
	apiHost, apiPort, _ := net.SplitHostPort(strings.TrimPrefix(on.Config().Host, "https://"))
	forbidden := map[string][2]string{
		"loopback": {"127.0.0.1", loopback.Port}, "name": {"localhost", loopback.Port}, "mapped": {
			"::ffff:127.0.0.1", loopback.Port,
		},
		"metadata": {"169.254.169.254", "80"}, "nat64": {"64:ff9b::a9fe:a9fe", "80"}, "zero": {
			"0.0.0.0", loopback.Port,
		}, "api": {apiHost, apiPort},
	}
	if host := ownHost(t); host != "" {
		own := startServer(t, host, postgres.Silence)
		forbidden["own"] = [2]string{host, own.Port}
		defer func() {
			if _, total := own.Connections(); total > 0 {
				t.Errorf("the operator opened %d connections to its own address, want none", total)
			}
		}()
	}
	for name, at := range forbidden {
		useServer(t, tenant, name, at[0], at[1])
	}
	for name := range forbidden {
		on.ExternalDatabaseReason(t, tenant.Namespace, name, "HostNotAllowed")
	}
	if _, total := loopback.Connections(); total > 0 {
		t.Errorf("the operator opened %d connections, want none", total)
	}
	canary(t, on)
}

// ownHost returns an IPv4 address of this machine that is not a loopback or link-local address, or "".
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
