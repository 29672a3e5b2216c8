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
	"windlass.dev/windlass/test/place"
)

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func TestAnExternalDatabaseWaitsForItsSecret(t *testing.T) {
	t.Parallel()
	e := &external{namespace: shared.NewNamespace(t), server: outside(t)}
	e.create(t, nil)
	e.says(t, "DependencyMissing", false, "Waiting for Secret server, which connectionSecretRef names, to be created.")
	createConnection(t, shared, e.namespace, "server", connectionTo(e.server))
	e.ready(t)
	e.works(t)
}

// TestWhatIsWrongWithAServerIsSaid goes through all that keeps an ExternalDatabase from
// being Ready, and mends it.
func TestWhatIsWrongWithAServerIsSaid(t *testing.T) {
	t.Parallel()
	server := outside(t)
	nobody, port, _ := net.SplitHostPort(place.OwnAddress())
	limited := &external{namespace: "limited", server: server}
	limited.do(t, "postgres", "CREATE ROLE limited LOGIN PASSWORD 'canary-of-limited'")
	good := connectionTo(server)
	uri := func(rest string) map[string]string {
		return map[string]string{"uri": "postgresql://postgres:" + server.Password + "@" + server.Address() + "/postgres" + rest}
	}
	for name, c := range map[string]struct {
		connection map[string]string
		reason     string
		degraded   bool
		words      []string
	}{
		"nobody listens":          {with(with(good, "host", nobody), "port", port), "ServerUnreachable", false, []string{"no PostgreSQL server answers: connection refused", "tried again every 30s"}},
		"a name that is none":     {with(good, "host", "no-such-host.invalid"), "ServerUnreachable", false, []string{"no PostgreSQL server answers.", "Secret server"}},
		"a wrong password":        {with(good, "password", "canary-that-is-wrong"), "LoginRefused", true, []string{"password authentication failed for user \"(hidden)\"", "Secret server"}},
		"a role that there isn't": {with(good, "username", "nobody"), "LoginRefused", true, []string{"password authentication failed for user \"(hidden)\""}},
		"no CREATEROLE":           {with(with(good, "username", "limited"), "password", "canary-of-limited"), "PermissionDenied", true, []string{"permission denied to create role", "CREATEROLE"}},
		"no such database":        {with(good, "dbname", "no-such"), "Rejected", true, []string{"database \"(hidden)\" does not exist"}},
		"TLS that it has not":     {with(good, "sslmode", ""), "ServerNotTrusted", true, []string{"the server has no TLS", "sslmode"}},
		"a mode that is none":     {with(good, "sslmode", "prefer"), "InvalidConnectionSecret", true, []string{"sslmode must be verify-full"}},
		"no host":                 {map[string]string{"username": "postgres"}, "InvalidConnectionSecret", true, []string{"neither uri nor host"}},
		"a port that is none":     {with(good, "port", "many"), "InvalidConnectionSecret", true, []string{"1 to 65535"}},
		"a line break":            {with(good, "password", server.Password+"\n"), "InvalidConnectionSecret", true, []string{"password has a control character"}},
		"a uri that is none":      {map[string]string{"uri": "postgresql://postgres:" + server.Password + "%zz@" + server.Address()}, "InvalidConnectionSecret", true, []string{"uri must be like"}},
		"a file of ours":          {uri("?sslmode=disable&sslrootcert=/etc/passwd"), "InvalidConnectionSecret", true, []string{"sslrootcert"}},
		"several hosts":           {with(good, "host", "a,b"), "InvalidConnectionSecret", true, []string{"not several"}},
		"a socket":                {with(good, "host", "/var/run/postgresql"), "InvalidConnectionSecret", true, []string{"not a socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, server, c.connection)
			e.create(t, nil)
			e.says(t, c.reason, c.degraded, c.words...)
			updateConnection(t, e.namespace, "server", uri("?sslmode=disable"))
			e.ready(t)
			e.works(t)
		})
	}
}

// silence accepts connections, and says nothing.
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
				_, _ = io.Copy(io.Discard, conn) // until the client goes
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

func (s *silence) port() string {
	_, port, _ := net.SplitHostPort(s.Addr().String())
	return port
}

// TestAServerThatSaysNothingDelaysNobody has more databases on a server that accepts and
// then is silent than there are workers. Of these one at most ever waits for it, so that
// the others are there for the databases of a server that works.
func TestAServerThatSaysNothingDelaysNobody(t *testing.T) {
	t.Parallel()
	const silent, alive = 20, 50
	dead := newSilence(t)
	e := newExternal(t, outside(t), nil)
	createConnection(t, shared, e.namespace, "dead", with(connectionTo(e.server), "port", dead.port()))
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
		if !containsAll(message(db), "Secret dead", "no PostgreSQL server answers: it timed out", "tried again every 30s.") {
			t.Errorf("it is not said that it is tried again: %s", message(db))
		}
	}
	if dead.max > 1 {
		t.Errorf("%d workers have waited for the dead server at once", dead.max)
	}
	updateConnection(t, e.namespace, "dead", connectionTo(e.server))
	ready("silent", silent)
}
