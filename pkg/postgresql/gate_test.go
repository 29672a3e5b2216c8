package postgresql

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// callers are those who want to ask one server.
type callers struct {
	t    *testing.T
	gate *gate
	now  time.Time
}

const address = "db:5432"

func newCallers(t *testing.T) *callers {
	c := &callers{t: t, now: time.Unix(0, 0)}
	c.gate = newGate(func() time.Time { return c.now })
	return c
}

// comes is a caller who is let in.
func (c *callers) comes() (leave func()) {
	c.t.Helper()
	leave, err := c.gate.enter(address)
	if err != nil {
		c.t.Fatalf("not let in: %v", err)
	}
	return leave
}

// isTold is a caller who is not let in.
func (c *callers) isTold(class Class) {
	c.t.Helper()
	if _, err := c.gate.enter(address); ClassOf(err) != class || err == nil {
		c.t.Errorf("wanted to be told %s, was told %v", class, err)
	}
}

var errAway = NewError(Away, "no answer")

func TestOneFindsOutAboutAServer(t *testing.T) {
	c := newCallers(t)
	first := c.comes()
	c.isTold(Busy)
	if _, err := c.gate.enter("other:5432"); err != nil {
		t.Errorf("another server is busy too: %v", err)
	}
	c.gate.asked(address, nil)
	second := c.comes() // it answers, so that all may
	first()
	second()
	c.comes()
}

func TestAServerThatIsAwayIsLeftAloneForAWhile(t *testing.T) {
	c := newCallers(t)
	first := c.comes()
	c.gate.asked(address, errAway)
	first()
	c.isTold(Away)
	c.now = c.now.Add(awayFor - 1)
	c.isTold(Away)
	c.now = c.now.Add(1)
	again := c.comes()
	c.isTold(Busy)
	c.gate.asked(address, errAway)
	again()
	c.isTold(Away)
	c.now = c.now.Add(awayFor)
	c.comes()
	c.gate.asked(address, nil)
	c.comes()
}

func TestOnlySilenceIsSilence(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		silent bool
	}{
		"an answer":               {nil, false},
		"a login that is refused": {NewError(Refused, "no: %w", &pgconn.PgError{Code: codeInvalidPassword}), false},
		"something else":          {errors.New("something else"), false},
		"a database that is full": {NewError(Away, "full: %w", &pgconn.PgError{Code: "53300"}), false}, // which its owner decides
		"a lock of another's":     {&pgconn.PgError{Code: "55P03"}, false},
		"a server that starts":    {NewError(Away, "wait: %w", &pgconn.PgError{Code: codeStarting}), true},
		"no answer":               {errAway, true},
	} {
		t.Run(name, func(t *testing.T) {
			callers := newCallers(t)
			callers.comes()
			callers.gate.asked(address, c.err)
			if c.silent {
				callers.isTold(Away)
				return
			}
			callers.comes()
		})
	}
}

// TestNobodyJoinsThoseWhoWaitForLong is of a server that logs in, and is silent then.
func TestNobodyJoinsThoseWhoWaitForLong(t *testing.T) {
	c := newCallers(t)
	first := c.comes()
	c.gate.asked(address, nil)
	second := c.comes()
	c.now = c.now.Add(patience + 1)
	c.isTold(Busy)
	c.gate.asked(address, nil) // it answers still
	third := c.comes()
	c.now = c.now.Add(patience + 1)
	for _, leave := range []func(){first, second, third} {
		c.isTold(Busy)
		leave()
	}
	c.comes()
}

// TestOthersAreToldWhyAndNotWho is of those who come while a server is left alone.
func TestOthersAreToldWhyAndNotWho(t *testing.T) {
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 38580}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"the network":        {&net.OpError{Op: "read", Net: "tcp", Source: from, Addr: from, Err: errors.New("connection reset by peer")}, "read tcp 10.0.0.1:38580: connection reset by peer"},
		"the end":            {fmt.Errorf("failed to receive message: %w", io.ErrUnexpectedEOF), "failed to receive message: unexpected EOF"},
		"no such name":       {&net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}, "lookup nowhere: no such host"},
		"no name in time":    {&net.DNSError{Err: "read udp 127.0.0.1:38580->127.0.0.1:53: i/o timeout", Name: "nowhere", IsTimeout: true}, "lookup nowhere: no answer in time"},
		"nobody knows names": {&net.DNSError{Err: "read udp 127.0.0.1:38580->127.0.0.1:53: connection refused", Name: "nowhere"}, "lookup nowhere: the name server could not be asked"},
		"the server":         {&pgconn.PgError{Code: codeStarting, Message: "the database system is starting up"}, "the database system is starting up"},
		"silence":            {errors.New("no answer"), "it gave none in time"},
	} {
		t.Run(name, func(t *testing.T) {
			callers := newCallers(t)
			callers.comes()
			callers.gate.asked(address, NewError(Away, "connecting to the server as \"clerk\": %w", plain(c.err)))
			_, err := callers.gate.enter(address)
			if want := "the server at " + address + " has not answered another attempt: " + c.want; err == nil || err.Error() != want {
				t.Errorf("others are told %v, and not %s", err, want)
			}
		})
	}
}
