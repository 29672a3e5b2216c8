package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Nothing waits for a server for longer than this.
const (
	connectTimeout = 5 * time.Second  // name, connection, TLS and login
	lookTimeout    = 5 * time.Second  // a query
	changeTimeout  = 30 * time.Second // a statement that copies or deletes files, or waits for a checkpoint
	// The server itself ends what takes that long, and what waits for others.
	statementTimeout = 25 * time.Second
	lockTimeout      = 3 * time.Second
)

// What a server may say, in bytes.
const (
	maxBeforeLogin = 64 << 10  // certificates among it
	maxAnswer      = 256 << 10 // in one session after the login
	maxMessage     = 64 << 10
)

// maxAddresses is how many addresses of a host are tried: a name can have thousands.
const maxAddresses = 4

// Connector connects to servers. It is safe for concurrent use, and shared by all, so
// that it knows which of them are away.
type Connector struct {
	options Options
	gate    *gate
	// base is a copy of what pgconn takes for a configuration: it takes no other than one
	// that it has parsed itself.
	base *pgconn.Config
}

// Options are what whoever runs the operator decides for all servers.
type Options struct {
	// Allowed are where connections may go.
	Allowed AllowedHosts
	// APIServers are where no connection goes, unless Allowed lists the very address.
	APIServers []netip.AddrPort
	// UntrustedExtensions are those that the administrator makes where the owner may not.
	// Their scripts run with the administrator's rights, in a schema that the owner may
	// write to: an extension whose script is not careful can be made to do anything.
	UntrustedExtensions []string
	// Workers is how many Servers are used at once. Half of them, at least one, may be at
	// servers that are not known to answer fast. Zero means DefaultWorkers.
	Workers int
}

// DefaultWorkers is Options.Workers unless it is set.
const DefaultWorkers = 10

// NewConnector returns a Connector. It fails only if the environment has variables for
// libpq that cannot be read; those that can have no effect.
func NewConnector(options Options) (*Connector, error) {
	base, err := pgconn.ParseConfig("host=localhost sslmode=disable user=nobody password=none")
	if err != nil {
		return nil, fmt.Errorf("reading libpq's variables of the environment: %w", err)
	}
	if options.Workers == 0 {
		options.Workers = DefaultWorkers
	}
	return &Connector{options: options, gate: newGate(max(1, options.Workers/2)), base: base}, nil
}

// attempt is one login, which may try several addresses. pgconn dials once more, in the
// background, to cancel what it gives up.
type attempt struct {
	mu      sync.Mutex
	verdict verdict  // the least of those on the addresses that were dialed, or on the name
	dialed  bool     // an address
	conn    *limited // the last
}

func (a *attempt) dials(decided verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.dialed || decided < a.verdict {
		a.dialed, a.verdict = true, decided
	}
}

func (a *attempt) reaches(conn *limited) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
}

func (a *attempt) result() (told bool, conn *limited) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.verdict == listed, a.conn
}

// connect logs in. What the server says has the hidden words taken out. Its errors have a
// Class.
func (c *Connector) connect(ctx context.Context, s Settings, hidden []string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	try := &attempt{verdict: unlisted}
	if named, _ := c.options.Allowed.name(s.Host); named {
		try.verdict = listed
	}
	config, err := c.config(s, try)
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	told, by := try.result()
	hears := hearing{hidden: hidden, told: told}
	if err != nil {
		return nil, hears.login(ctx, err, by)
	}
	by.left.Store(maxAnswer)
	return &session{conn: conn, hears: hears}, nil
}

// config says all, so that nothing comes from the environment or from files.
func (c *Connector) config(s Settings, try *attempt) (*pgconn.Config, error) {
	var err error
	config := c.base.Copy()
	config.Host, config.Port, config.User, config.Password, config.Database = s.Host, s.Port, s.Username, s.Password, s.Database
	if config.TLSConfig, err = s.tls(); err != nil {
		return nil, err
	}
	config.Fallbacks, config.SSLNegotiation, config.RequireAuth, config.ChannelBinding = nil, "", "", "prefer"
	config.ValidateConnect, config.MinProtocolVersion, config.MaxProtocolVersion = nil, "3.0", "3.0"
	config.MaxProtocolMessageBodyLen = maxMessage
	if !s.verified() {
		config.RequireAuth = "!password" // it could be anybody who asks
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams = map[string]string{
		"application_name": "windlass", "client_encoding": "UTF8", "search_path": "pg_catalog",
		"standard_conforming_strings": "on", "default_transaction_read_only": "off",
		"lock_timeout": milliseconds(lockTimeout), "statement_timeout": milliseconds(statementTimeout), "idle_session_timeout": "0",
	}
	config.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addresses, err := net.DefaultResolver.LookupHost(ctx, host)
		return addresses[:min(len(addresses), maxAddresses)], err
	}
	config.DialFunc = c.dialer(s.Host, try)
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(&inspector{in: r}, w)
	}
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// dialer dials addresses of a host, after they were looked up, if they are allowed.
func (c *Connector) dialer(host string, try *attempt) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("reading the address %s: %w", address, err)
		}
		decided := c.options.Allowed.judge(host, at, c.options.APIServers)
		if decided == forbidden {
			return nil, errForbidden
		}
		try.dials(decided)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		by := &limited{Conn: conn}
		by.left.Store(maxBeforeLogin)
		try.reaches(by)
		return by, nil
	}
}

var errForbidden = NewError(Forbidden, "the operator does not connect to that host: --external-database-allowed-hosts must have it, or its address if that is loopback, link-local or the API server's")

// limited is a connection by which a server can tell only so much: one that is none
// could fill the memory.
type limited struct {
	net.Conn
	left  atomic.Int64
	first byte // that the server said
	begun bool
}

var errTooMuch = errors.New("the server says more than it is asked for")

func (l *limited) Read(into []byte) (int, error) {
	left := l.left.Load()
	if left <= 0 {
		return 0, errTooMuch
	}
	n, err := l.Conn.Read(into[:min(int64(len(into)), left)])
	l.left.Add(-int64(n))
	if n > 0 && !l.begun {
		l.begun, l.first = true, into[0]
	}
	return n, err
}

// session is one connection.
type session struct {
	conn  *pgconn.PgConn
	hears hearing
}

// exec does a statement, or several of which all or none is done.
func (s *session) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql).ReadAll(); err != nil {
		return s.hears.answer(ctx, err, changeTimeout)
	}
	return nil
}

// close says goodbye, but does not wait for an answer.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // it is gone either way
}
