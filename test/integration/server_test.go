//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// server is the PostgreSQL server of a Database "shop". The container in the StatefulSet runs on this machine, because
// the node of the cluster only simulates Pods.
type server struct {
	namespace string
	pod       *postgres.Pod
	running   *postgres.Container
	mounted   string // the revision of the settings in the container
}

// newServer creates a Database with the PostgreSQL version of this machine, and returns when the container is ready. If
// change is not nil, it modifies the spec of the Database before the creation.
func newServer(t *testing.T, change func(*v1alpha1.DatabaseSpec)) *server {
	t.Helper()
	programs, err := postgres.Find()
	if err != nil {
		t.Fatal(err)
	}
	spec := framework.SmallestDatabase()
	spec.Version = programs.Version
	if change != nil {
		change(&spec)
	}
	s := &server{namespace: shared.NewNamespace(t), pod: postgres.NewPod(t)}
	shared.CreateDatabase(t, s.namespace, "shop", spec)
	s.start(t)
	return s
}

// container waits until the Database is Ready, and returns the container in the StatefulSet.
func (s *server) container(t *testing.T) corev1.Container {
	t.Helper()
	shared.DatabaseIn(t, s.namespace, "shop", v1alpha1.DatabaseReady)
	set, err := shared.Kube.AppsV1().StatefulSets(s.namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec.Containers[0]
}

// launch starts the container, and does not wait until the container is ready.
func (s *server) launch(t *testing.T) {
	t.Helper()
	container := s.container(t)
	s.mount(t)
	s.running = s.pod.Start(t, container)
}

// mount writes the current settings to the volume of the Pod, as the kubelet does.
func (s *server) mount(t *testing.T) {
	t.Helper()
	settings, err := shared.Kube.CoreV1().Secrets(s.namespace).Get(t.Context(), "shop-settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.mounted = string(settings.Data["revision"])
	s.pod.Mount(t, "settings", settings.Data)
}

// start starts the container, and returns when it is ready.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.launch(t)
	s.ready(t)
}

func (s *server) ready(t *testing.T) {
	t.Helper()
	s.readyBy(t, s.container(t).ReadinessProbe)
}

func (s *server) readyBy(t *testing.T, probe *corev1.Probe) {
	t.Helper()
	s.eventually(t, "PostgreSQL to be ready", func() bool { return s.running.Probe(t.Context(), probe) == nil })
}

// eventually waits until holds returns true. It fails the test if the container ends first.
func (s *server) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	framework.Eventually(t, what, func(context.Context) (bool, error) {
		select {
		case <-s.running.Ended():
			return false, fmt.Errorf("the container ended: %s; its log:\n%s", s.pod.TerminationMessage(), s.running.Log())
		default:
			return holds(), nil
		}
	})
}

// restart stops the running container, and starts the current container of the StatefulSet.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.running.Stop(t)
	s.start(t)
}

// connect connects with the uri of a Secret, but to the host and port of the container on this machine. It fails the
// test if the uri does not have the address of the Service.
func (s *server) connect(t *testing.T, credentials *corev1.Secret) (*pgx.Conn, error) {
	t.Helper()
	config, err := postgres.ParseURI(t, credentials.Data)
	if err != nil {
		t.Fatal(err)
	}
	if want := "shop." + s.namespace + ".svc"; config.Host != want || config.Port != 5432 {
		t.Errorf("the uri has the address %s:%d, want %s:5432", config.Host, config.Port, want)
	}
	port, err := strconv.ParseUint(s.pod.Port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(port), nil // the name of the certificate stays
	return pgx.ConnectConfig(t.Context(), config)
}

// query runs a query with the credentials in the current Secret, and returns its only value.
func (s *server) query(t *testing.T, sql string) string {
	t.Helper()
	connection, err := s.connect(t, shared.Credentials(t, s.namespace, "shop"))
	if err != nil {
		t.Fatalf("connecting: %v; the server's log:\n%s", err, s.running.Log())
	}
	defer connection.Close(context.Background())
	var value any
	if err := connection.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return fmt.Sprint(value)
}

// wants fails the test unless a query returns want.
func (s *server) wants(t *testing.T, sql, want string) {
	t.Helper()
	if got := s.query(t, sql); got != want {
		t.Errorf("%s returns %q, want %q", sql, got, want)
	}
}

// rejects fails the test unless the server rejects a login with the credentials in a Secret.
func (s *server) rejects(t *testing.T, credentials *corev1.Secret) {
	t.Helper()
	connection, err := s.connect(t, credentials)
	if err == nil {
		_ = connection.Close(context.Background())
		t.Error("the server accepts previous credentials")
		// invalid password, invalid authorization
	} else if !strings.Contains(err.Error(), "28P01") && !strings.Contains(err.Error(), "28000") {
		t.Errorf("connecting with previous credentials: got %v, want an authentication error", err)
	}
}

// patchCredentials changes the Secret as a user does, and waits until the running server has applied the change.
func (s *server) patchCredentials(t *testing.T, patch string) {
	t.Helper()
	patchSecret(t, s.namespace, "shop-credentials", patch)
	s.apply(t)
}

// apply waits until the operator has changed the settings, mounts them in the container, and waits until the server has
// applied them.
func (s *server) apply(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "the settings to change", func(context.Context) (bool, error) {
		return settingsRevision(t, s.namespace) != s.mounted, nil
	})
	s.mount(t)
	s.eventually(t, "PostgreSQL to have the settings", func() bool {
		text, err := os.ReadFile(filepath.Join(s.pod.Path("shared-memory"), "windlass", "applied"))
		return err == nil && string(text) == s.mounted
	})
	s.ready(t)
}

// settingsRevision returns the revision of the settings. The revision changes when any setting changes.
func settingsRevision(t *testing.T, namespace string) string {
	t.Helper()
	settings, err := shared.Kube.CoreV1().Secrets(namespace).Get(t.Context(), "shop-settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(settings.Data["revision"])
}

// psql runs "select 1" with the .pgpass line in a Secret, and returns the output.
func (s *server) psql(t *testing.T, credentials *corev1.Secret) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pgpass")
	line := strings.Replace(string(credentials.Data["pgpass"]), string(credentials.Data["host"])+":5432:",
		"127.0.0.1:"+s.pod.Port+":", 1)
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	programs, err := postgres.Find()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(programs.Dir, "psql"), "--no-password", "--no-psqlrc",
		"--tuples-only", "--no-align", "--command=select 1")
	command.Env = []string{
		"PGPASSFILE=" + file, "PGHOST=127.0.0.1", "PGPORT=" + s.pod.Port,
		"PGUSER=" + string(credentials.Data["username"]), "PGDATABASE=" + string(credentials.Data["dbname"]),
	}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("psql: %v: %s", err, output)
	}
	return strings.TrimSpace(string(output))
}
