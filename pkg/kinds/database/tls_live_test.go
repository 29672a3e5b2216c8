//go:build integration

package database

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// tryLogin logs in through TCP as the owner, with parameters of the session.
func (s *liveServer) tryLogin(t *testing.T, mode string, parameters map[string]string) error {
	t.Helper()
	config, err := pgconn.ParseConfig("host=127.0.0.1 sslmode=" + mode + " port=" + s.pod.Port)
	if err != nil {
		t.Fatal(err)
	}
	config.User, config.Database = s.db.Spec.Owner, s.db.Spec.DatabaseName
	config.Password, config.Fallbacks = string(s.secret.Data[credentials.KeyPassword]), nil
	for name, value := range parameters {
		config.RuntimeParams[name] = value
	}
	connection, err := pgconn.ConnectConfig(t.Context(), config)
	if err == nil {
		_ = connection.Close(context.Background())
	}
	return err
}

func TestServerAcceptsNothingWithoutTLSFromNetwork(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	for name, c := range map[string]struct {
		mode, replication string // values of libpq
		want              string
	}{
		"a login":                     {mode: "disable", replication: "false", want: "no encryption"},
		"a replication":               {mode: "disable", replication: "true", want: "no encryption"},
		"a replication of a database": {mode: "disable", replication: "database", want: "no encryption"},
		"a replication with TLS":      {mode: "require", replication: "true", want: "replication connection"},
	} {
		err := s.tryLogin(t, c.mode, map[string]string{"replication": c.replication})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	if err := s.tryLogin(t, "require", nil); err != nil {
		t.Errorf("a login with TLS: %v", err)
	}
	s.change(t, func(spec *v1alpha1.DatabaseSpec) {
		spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
	})
	if err := s.tryLogin(t, "disable", nil); err == nil {
		t.Error("a login without TLS succeeds after a reload")
	}
}

// TestRenewedCertificateBreaksNoConnection renews the certificate several times while clients connect and verify the
// server, and while others keep their connections.
func TestRenewedCertificateBreaksNoConnection(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	open, started := s.login(t), s.ask(t, startTime)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var logins atomic.Int64
	owner, password := s.db.Spec.Owner, string(s.secret.Data[credentials.KeyPassword])
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				connection, err := s.connect(ctx, owner, password, s.db.Spec.DatabaseName)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("login %d: %v", logins.Load(), err)
					}
					return
				}
				logins.Add(1)
				_ = connection.Close(ctx)
			}
		})
	}
	for range 5 {
		before := logins.Load()
		s.issue(t)
		s.mount(t)
		s.awaitSettings(t)
		s.eventually(t, "logins after the renewal", func() bool { return logins.Load() >= before+40 || t.Failed() })
		served := s.login(t).PgConn().Conn().(*tls.Conn).ConnectionState().PeerCertificates[0]
		if !served.Equal(s.issued.Serving.Leaf) {
			t.Error("the server presents its previous certificate")
		}
	}
	stop()
	clients.Wait()
	if err := open.Ping(t.Context()); err != nil {
		t.Errorf("the connection of before the renewals: %v", err)
	}
	s.wants(t, startTime, started) // no restart
	t.Logf("%d logins during 5 renewals", logins.Load())
}

func TestTLSIsDisabledAndEnabledWithoutRestart(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	started := s.ask(t, startTime)
	for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSDisabled, v1alpha1.TLSRequired} {
		s.db.Spec.TLS.Mode = mode
		s.setPassword(string(s.secret.Data[credentials.KeyPassword]))
		s.mount(t)
		s.awaitSettings(t)
		s.wants(t, "select ssl from pg_stat_ssl where pid = pg_backend_pid()", fmt.Sprint(mode == v1alpha1.TLSRequired))
		s.wants(t, startTime, started)
	}
}

// TestServerWithBrokenCertificateKeepsPreviousOne mounts a certificate that the operator never writes.
func TestServerWithBrokenCertificateKeepsPreviousOne(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	before := s.login(t).PgConn().Conn().(*tls.Conn).ConnectionState().PeerCertificates[0]
	none := encryption{certificate: []byte("none"), key: []byte("none")}
	broken := desiredSettings(s.db, none, s.logins, nil, time.Now())
	s.settings = broken
	s.pod.Mount(t, settingsVolume, broken.Data)
	s.awaitSettings(t)
	after := s.login(t).PgConn().Conn().(*tls.Conn).ConnectionState().PeerCertificates[0]
	if !after.Equal(before) {
		t.Error("the server presents another certificate")
	}
}

// TestConnectionURIWorksWithLibpqAndPgx connects with the URI of the connection Secret alone, as a program in an App.
func TestConnectionURIWorksWithLibpqAndPgx(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	path := filepath.Join(s.pod.Path(sharedVolume), credentials.KeyCA)
	if err := os.WriteFile(path, s.secret.Data[credentials.KeyCA], 0o644); err != nil {
		t.Fatal(err)
	}
	// On this machine, the server has another address and another port, and the file is in another directory.
	uri := strings.NewReplacer(
		":5432/", ":"+s.pod.Port+"/", "%2Fetc%2Fwindlass%2Fdatabase%2Fca.crt", path,
	).Replace(string(s.secret.Data[credentials.KeyURI]))
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		t.Fatal(err)
	}
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	connection, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgx: %v", err)
	}
	_ = connection.Close(t.Context())
	psql := func(uri string) error {
		command := &corev1.ExecAction{Command: []string{"psql", uri + "&hostaddr=127.0.0.1", "-c", "select 1"}}
		return s.running.Probe(t.Context(), &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: command}})
	}
	if err := psql(uri); err != nil {
		t.Errorf("psql: %v", err)
	}
	other := newLiveServer(t)
	if err := os.WriteFile(path, other.secret.Data[credentials.KeyCA], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := psql(uri); err == nil {
		t.Error("psql connects to a server that another CA has certified")
	}
}
