//go:build integration

package integration

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func TestExternalDatabaseWaitsForConnectionSecret(t *testing.T) {
	t.Parallel()
	e := &external{namespace: shared.NewNamespace(t), server: sharedServer(t)}
	e.create(t, nil)
	e.wantMessage(t, "DependencyMissing", false, "Waiting for Secret server, which connectionSecretRef names, "+
		"to be created.")
	createConnection(t, shared, e.namespace, "server", connectionTo(e.server))
	e.ready(t)
	e.wantOwnerLogin(t)
}

// TestExternalDatabaseReportsConnectionErrors checks the message for each connection error, and then corrects the
// connection Secret.
func TestExternalDatabaseReportsConnectionErrors(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	nobody, port, _ := net.SplitHostPort(framework.OwnAddress())
	limited := &external{namespace: "limited", server: server}
	limited.exec(t, "postgres", "CREATE ROLE limited LOGIN PASSWORD 'canary-of-limited'")
	good := connectionTo(server)
	uri := func(rest string) map[string]string {
		return map[string]string{
			"uri": "postgresql://postgres:" + server.Password + "@" + server.Address() + "/postgres" + rest,
		}
	}
	for name, c := range map[string]struct {
		connection map[string]string
		reason     string
		degraded   bool
		words      []string
	}{
		"nobody listens": {
			withKey(withKey(good, "host", nobody), "port", port), "ServerUnreachable", false, []string{
				"no PostgreSQL server responds: connection refused", "The operator retries at least every 30s",
			},
		},
		"an unknown host name": {
			withKey(good, "host", "no-such-host.invalid"), "ServerUnreachable", false, []string{
				"no PostgreSQL server responds.", "Secret server",
			},
		},
		"a wrong password": {
			withKey(good, "password", "canary-that-is-wrong"), "LoginRejected", true, []string{
				"password authentication failed for user \"(hidden)\"", "Secret server",
			},
		},
		"an unknown role": {
			withKey(good, "username", "nobody"), "LoginRejected", true, []string{
				"password authentication failed for user \"(hidden)\"",
			},
		},
		"no CREATEROLE": {
			withKey(withKey(good, "username", "limited"), "password", "canary-of-limited"), "PermissionDenied", true,
			[]string{"permission denied to create role", "CREATEROLE"},
		},
		"no such database": {
			withKey(good, "dbname", "no-such"), "Rejected", true, []string{"database \"(hidden)\" does not exist"},
		},
		"a server without TLS": {
			withKey(good, "sslmode", ""), "ServerNotTrusted", true, []string{"the server does not support TLS", "sslmode"},
		},
		"an unknown sslmode": {
			withKey(good, "sslmode", "prefer"), "InvalidConnectionSecret", true, []string{"sslmode must be verify-full"},
		},
		"no host": {
			map[string]string{"username": "postgres"}, "InvalidConnectionSecret", true, []string{"neither uri nor host"},
		},
		"an invalid port": {withKey(good, "port", "many"), "InvalidConnectionSecret", true, []string{"1 to 65535"}},
		"a line break": {
			withKey(good, "password", server.Password+"\n"), "InvalidConnectionSecret", true, []string{
				"password contains a control character",
			},
		},
		"an invalid uri": {
			map[string]string{
				"uri": "postgresql://postgres:" + server.Password + "%zz@" + server.Address(),
			}, "InvalidConnectionSecret", true, []string{"uri must have the form"},
		},
		"a file of the operator": {
			uri("?sslmode=disable&sslrootcert=/etc/passwd"), "InvalidConnectionSecret", true, []string{"sslrootcert"},
		},
		"several hosts": {
			withKey(good, "host", "a,b"), "InvalidConnectionSecret", true, []string{"lists of hosts", "not supported"},
		},
		"a socket": {
			withKey(good, "host", "/var/run/postgresql"), "InvalidConnectionSecret", true, []string{"sockets are not supported"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, server, c.connection)
			e.create(t, nil)
			e.wantMessage(t, c.reason, c.degraded, c.words...)
			updateConnection(t, e.namespace, "server", uri("?sslmode=disable"))
			e.ready(t)
			e.wantOwnerLogin(t)
		})
	}
}

// silence is a server that accepts connections and sends nothing. It counts the open connections.
type silence struct {
	net.Listener
	mu        sync.Mutex
	open, max int
}

func newSilence(t *testing.T) *silence {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s := &silence{Listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.count(1)
			go func() {
				_, _ = io.Copy(io.Discard, conn) // returns when the client closes the connection
				_ = conn.Close()
				s.count(-1)
			}()
		}
	}()
	return s
}

func (s *silence) count(change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += change
	s.max = max(s.max, s.open)
}

// most returns the largest number of connections that were open at once.
func (s *silence) most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}

func (s *silence) port() string {
	_, port, _ := net.SplitHostPort(s.Addr().String())
	return port
}

// TestSilentServerDelaysNoOtherExternalDatabase creates more ExternalDatabases on a silent server than there are
// workers. At most two workers wait for this server, and the other workers handle the databases of another server.
func TestSilentServerDelaysNoOtherExternalDatabase(t *testing.T) {
	t.Parallel()
	const silent, alive = 20, 50
	silentServer := newSilence(t)
	e := newExternal(t, sharedServer(t), nil)
	createConnection(t, shared, e.namespace, "dead", withKey(connectionTo(e.server), "port", silentServer.port()))
	create := func(kind string, n int, secret string) {
		t.Helper()
		spec := e.spec()
		name := fmt.Sprintf("%s-%d", kind, n)
		spec.ConnectionSecretRef.Name, spec.DatabaseName, spec.Owner = secret, name+e.namespace, name+e.namespace
		shared.CreateExternalDatabase(t, e.namespace, name, spec)
	}
	ready := func(kind string, n int) {
		t.Helper()
		for n := range n {
			shared.ExternalDatabaseIn(t, e.namespace, fmt.Sprintf("%s-%d", kind, n), v1alpha1.ExternalDatabaseReady)
		}
	}
	for n := range silent {
		create("silent", n, "dead")
	}
	for n := range alive {
		create("alive", n, "server")
	}
	ready("alive", alive)
	for n := range silent {
		db := shared.ExternalDatabaseReason(t, e.namespace, fmt.Sprintf("silent-%d", n), "ServerUnreachable")
		if !containsAll(message(db), "Secret dead", "no PostgreSQL server responds: the attempt timed out",
			"The operator retries at least every 30s.") {
			t.Errorf("the message does not announce a retry: %s", message(db))
		}
	}
	if most := silentServer.most(); most > 2 {
		t.Errorf("%d connections to the silent server were open at once, want at most 2", most)
	}
	updateConnection(t, e.namespace, "dead", connectionTo(e.server))
	ready("silent", silent)
}
