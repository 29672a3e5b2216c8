package postgresql

import (
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"windlass.dev/windlass/test/postgres"
)

// plays starts a server on this machine that plays a script. It returns the server and its Settings.
func plays(t *testing.T, script postgres.Script) (*postgres.Scripted, Settings) {
	t.Helper()
	s, err := postgres.Play("127.0.0.1", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	port, _ := strconv.ParseUint(s.Port, 10, 16) // Port is always a number
	return s, Settings{
		Host: "127.0.0.1", Port: uint16(port), Username: "admin-of-secret", Password: "canary-of-secret",
		Database: "base-of-secret", Mode: Disable,
	}
}

// asks calls Server.Exists with a new Connector that allows the address of scripted servers, and returns the error.
func asks(t *testing.T, as Settings) error {
	t.Helper()
	hosts, err := ParseAllowedHosts([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return asksWhere(t, as, hosts)
}

// asksWhere is like asks, but allows the given hosts. It fails the test if there is no error.
func asksWhere(t *testing.T, as Settings, hosts AllowedHosts) error {
	t.Helper()
	connector, err := NewConnector(Options{Allowed: hosts})
	if err != nil {
		t.Fatal(err)
	}
	server := connector.Open("team", as)
	defer server.Close()
	if _, err = server.Exists(t.Context(), want()); err == nil {
		t.Fatal("it is believed")
	}
	return err
}

func TestServerMessageIsTruncatedAndPrintable(t *testing.T) {
	for name, words := range map[string]string{
		"long":            strings.Repeat("x", 1<<16),
		"long, in runes":  strings.Repeat("ä€", 1<<14),
		"not UTF-8":       strings.Repeat("\xff\xfe", 900),
		"several lines":   "a\nb\r\n\x1b[31mred\x00\u2028\u202etxet",
		"a million lines": strings.Repeat("\n", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			got := hearing{}.words(words)
			if len(got) > maxText || !utf8.ValidString(got) ||
				strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("it is %d bytes: %q", len(got), got)
			}
		})
	}
}

func TestServerMessageHidesValuesOfSecret(t *testing.T) {
	h := hearing{hidden: []string{"db.example.com", "admin", "s3", "secret-of-admin", "x", "", "\xff"}}
	for said, want := range map[string]string{
		`password authentication failed for user "admin"`: `password authentication failed for user "(hidden)"`,
		`no pg_hba.conf entry for host "db.example.com"`:  `no pg_hba.conf entry for host "(hidden)"`,
		"secret-of-admin":              "(hidden)",
		"admin:s3@db.example.com/x,xx": "(hidden):(hidden)@(hidden)/(hidden),xx",
		"extension xml is missing":     "extension xml is missing",
		"x":                            "(hidden)",
		"äxä":                          "äxä",
	} {
		if got := h.words(said); got != want {
			t.Errorf("of %q it is said %q, and not %q", said, got, want)
		}
	}
}

func TestErrorSaysWhatDependsOnRole(t *testing.T) {
	h := hearing{hidden: []string{"admin"}}
	const dropped, other = "role cannot be dropped", "role does not exist"
	for name, c := range map[string]struct{ code, message, detail, want string }{
		"two objects": {
			codeStillNeeded, dropped, "owner of database shop\nprivileges for table a", dropped +
				": owner of database shop; privileges for table a (SQLSTATE 2BP01)",
		},
		"a hidden word and an escape sequence": {
			codeStillNeeded, dropped, "owner of admin\x1b[31m", dropped + ": owner of (hidden) [31m (SQLSTATE 2BP01)",
		},
		"many objects": {
			codeStillNeeded, dropped, strings.Repeat("x", 1<<16),
			dropped + ": " + strings.Repeat("x", maxText-len(dropped+": …")) + "… (SQLSTATE 2BP01)",
		},
		"no detail":             {codeStillNeeded, dropped, "", dropped + " (SQLSTATE 2BP01)"},
		"the detail of another": {"42704", other, "a value of a row", other + " (SQLSTATE 42704)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := h.reported(&pgconn.PgError{Code: c.code, Message: c.message, Detail: c.detail})
			if err.Error() != c.want {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}

func TestLongServerResponseIsLimited(t *testing.T) {
	for name, script := range map[string]postgres.Script{
		"in one message":           postgres.Rejects("28000", strings.Repeat("x", 4<<20)),
		"in many short lines":      postgres.Rejects("28000", strings.Repeat("x\n", 9<<10)),
		"in rows without an end":   postgres.Flood(),
		"with a code of its own":   postgres.Rejects(strings.Repeat("8", 9<<10), "no"),
		"in bytes without meaning": postgres.Says("N" + strings.Repeat("\xff", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			_, as := plays(t, script)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := asks(t, as)
			runtime.ReadMemStats(&after)
			if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 100 {
				t.Errorf("%d MiB were taken", grown) // this includes the memory of the script
			}
			const ours = 300
			if n := len(err.Error()); n > maxText+ours {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

// TestErrorOmitsValuesOfSecret connects to servers that may repeat values of the Secret.
func TestErrorOmitsValuesOfSecret(t *testing.T) {
	for name, script := range map[string]postgres.Script{
		"a login that is rejected": postgres.Rejects("28P01",
			`password authentication failed for user "admin-of-secret", password "canary-of-secret", on 127.0.0.1, `+
				`database "base-of-secret"`),
		"a connection that is cut": postgres.Hangup,
		"another service":          postgres.Says("HTTP/1.1 400 Bad Request\r\n\r\nadmin-of-secret"),
	} {
		t.Run(name, func(t *testing.T) {
			_, as := plays(t, script)
			err := asks(t, as)
			for _, hidden := range []string{"127.0.0.1", strconv.Itoa(int(as.Port)), "-of-secret"} {
				if strings.Contains(err.Error(), hidden) || strings.Contains(Detail(err), hidden) {
					t.Errorf("%s is in: %v, %s", hidden, err, Detail(err))
				}
			}
		})
	}
}

// TestErrorOfResetConnectionIsStable connects to a server that resets connections. If the error varied, each
// reconcile would write the status.
func TestErrorOfResetConnectionIsStable(t *testing.T) {
	_, as := plays(t, postgres.Hangup)
	for range 20 {
		err := asks(t, as)
		if ClassOf(err) != Silent || err.Error() != "no PostgreSQL server responds: the connection was reset" {
			t.Errorf("got %v of class %s", err, ClassOf(err))
		}
	}
}

// TestErrorDoesNotRevealOtherServices connects to hosts that are not listed. Users who may name a host must not learn
// what responds at the host, unless a PostgreSQL server responds.
func TestErrorDoesNotRevealOtherServices(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	told := map[string]bool{}
	try := func(name string, as Settings) {
		for _, mode := range []TLSMode{Disable, Require, VerifyFull} {
			if as.Mode = mode; name == "silence" && mode != Disable {
				continue // the result is the same, but takes seconds
			}
			err := asksWhere(t, as, AllowedHosts{ordinary: true}) // loopback is not special in this test
			told[string(ClassOf(err))+": "+err.Error()] = true
			t.Logf("%s, %s: %v (%s)", name, mode, err, Detail(err))
		}
	}
	try("nobody", Settings{
		Host: "127.0.0.1", Port: netip.MustParseAddrPort(nobody.Addr().String()).Port(), Username: "admin",
	})
	try("no name", Settings{Host: "no-such-host.invalid", Port: 5432, Username: "admin"})
	for name, script := range map[string]postgres.Script{
		"silence":  postgres.Silence,
		"a reset":  postgres.Hangup,
		"the end":  func(net.Conn) {},
		"HTTP":     postgres.Says("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"SSH":      postgres.Says("SSH-2.0-OpenSSH_9.2\r\n"),
		"Redis":    postgres.Says("-ERR unknown command\r\n"),
		"TLS":      postgres.Says("\x15\x03\x01\x00\x02\x02\x46"),
		"an error": postgres.Says("E\x00\x00\x00\x01"),
	} {
		_, as := plays(t, script)
		try(name, as)
	}
	if len(told) != 1 || !told["Silent: no PostgreSQL server responds"] {
		t.Errorf("it is told: %v", told)
	}
}

// TestUnverifiedServerGetsNoPassword connects to servers without TLS that ask for the password.
func TestUnverifiedServerGetsNoPassword(t *testing.T) {
	for name, c := range map[string]struct {
		request pgproto3.BackendMessage
		class   Class
		want    string
	}{
		"the password in cleartext": {
			&pgproto3.AuthenticationCleartextPassword{}, Unverified,
			"the server asks for the password in cleartext, but sslmode disable does not verify the server",
		},
		"an MD5 hash": {
			&pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}}, Unverified,
			"the server asks for an MD5 hash of the password, but sslmode disable does not verify the server",
		},
		"Kerberos": {&pgproto3.AuthenticationGSS{}, LoginRejected, unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			_, as := plays(t, postgres.Asks(c.request, func(response string) { t.Errorf("the server got %q", response) }))
			err := asks(t, as)
			if ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v of class %s", err, ClassOf(err))
			}
		})
	}
}

func TestLoginRejectsTooManySCRAMIterations(t *testing.T) {
	for iterations, taken := range map[int]bool{4096: true, 100_000: true, 100_001: false, 10_000_000: false} {
		var proofs atomic.Int32
		_, as := plays(t, postgres.Bomb(iterations, func() { proofs.Add(1) }))
		err := asks(t, as)
		if taken != (proofs.Load() > 0) ||
			!taken && (ClassOf(err) != Rejected ||
				!strings.Contains(err.Error(), "SCRAM iterations, but the operator computes at most 100000")) {
			t.Errorf("of %d iterations: %d logins went on, and the error is %v of class %s", iterations, proofs.Load(),
				err, ClassOf(err))
		}
	}
}
