package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// connectTimeout is the timeout of the name lookup, connection, TLS handshake and login together.
const connectTimeout = 5 * time.Second

// Limits on the data that is read from a server, in bytes.
const (
	maxBeforeLogin = 64 << 10  // including certificates
	maxAnswer      = 256 << 10 // in one session after the login
	maxMessage     = 64 << 10
)

// maxAddresses limits how many addresses of a host are tried. A host name can have thousands.
const maxAddresses = 4

// Connector connects to servers. It is safe for concurrent use. All reconciles share one Connector, because
// it remembers which servers do not respond.
type Connector struct {
	options Options
	gate    *gate
	// base is the configuration that is copied for each connection. pgconn accepts only a Config that its
	// ParseConfig created.
	base *pgconn.Config
	// predictions has the state after planned statements, by subject: see Options.Plan.
	predictions sync.Map
}

// Options configure a Connector.
type Options struct {
	// Allowed decides which servers the Connector may connect to.
	Allowed AllowedHosts
	// APIServers are the addresses and ports of API servers. Connections to them are forbidden unless Allowed
	// lists the exact address.
	APIServers []netip.AddrPort
	// Own are the addresses of the Pod or the machine of the operator. Connections to them are forbidden unless Allowed
	// lists the address, its network or the exact name.
	Own []netip.Addr
	// UntrustedExtensions are extensions that a Server creates as the administrator if the owner may not create
	// them. Their scripts run with the administrator's privileges, in a schema that the owner may write to. The
	// owner can make a careless script execute any statement.
	UntrustedExtensions []string
	// Workers is the number of Servers that callers use at the same time. At most half of the Servers, but at least one,
	// may use PostgreSQL servers that are not known to respond fast.
	Workers int
	// Observe, if it is set, is called after each request to a server. It is called concurrently.
	Observe func(Request)
	// Plan, if it is set, is called with each statement that would change a server, and no such statement is executed. The
	// statement contains no password. Servers act as if they had executed the statements.
	Plan func(sql string)
	// Offline prevents connections to PostgreSQL servers in a plan. Each change succeeds without statements, and Exists
	// reports a database with a known ID as current.
	Offline bool
}

// NewConnector returns a Connector. It fails only if libpq's environment variables are invalid. Valid
// variables have no effect.
func NewConnector(options Options) (*Connector, error) {
	base, err := pgconn.ParseConfig("host=localhost sslmode=disable user=nobody password=none")
	if err != nil {
		return nil, fmt.Errorf("parsing the environment variables of libpq: %w", err)
	}
	return &Connector{options: options, gate: newGate(max(1, options.Workers/2)), base: base}, nil
}

// attempt records the last dial of one login. A login can dial several addresses. After a timeout, pgconn dials again
// in the background to cancel its request.
type attempt struct {
	server atomic.Pointer[string]  // Request.Server
	conn   atomic.Pointer[limited] // nil before the first connection
}

// connect logs in, and passes the login to Options.Observe with the given role. Errors have a Class, and their messages
// do not contain the hidden words.
func (c *Connector) connect(ctx context.Context, s Settings, role string, hidden []string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	began, try := time.Now(), &attempt{}
	entry, _ := c.options.Allowed.match(s.Host, netip.Addr{})
	try.server.Store(&entry)
	config, err := c.config(s, try)
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	server, by := *try.server.Load(), try.conn.Load()
	hears := hearing{hidden: hidden, told: server != UnlistedServer, mode: s.Mode}
	if err != nil {
		err = hears.login(ctx, err, by)
	}
	c.options.observe(server, role, began, err)
	if err != nil {
		return nil, err
	}
	by.left.Store(maxAnswer)
	return &session{
		conn: conn, hears: hears, observe: func(began time.Time, err error) { c.options.observe(server, "", began, err) },
	}, nil
}

// config returns a complete configuration, so that pgconn reads nothing from the environment or from files.
func (c *Connector) config(s Settings, try *attempt) (*pgconn.Config, error) {
	var err error
	config := c.base.Copy()
	config.Host = s.Host
	config.Port = s.Port
	config.User = s.Username
	config.Password = s.Password
	config.Database = s.Database
	if config.TLSConfig, err = s.tls(); err != nil {
		return nil, err
	}
	config.Fallbacks, config.SSLNegotiation, config.RequireAuth, config.ChannelBinding = nil, "", "", "prefer"
	config.ValidateConnect, config.MinProtocolVersion, config.MaxProtocolVersion = nil, "3.0", "3.0"
	if !s.verified() {
		config.RequireAuth = "scram-sha-256,none" // all other methods reveal the password, or a hash of it
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams = parameters()
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

// dialer returns a function that dials the allowed addresses of a host.
func (c *Connector) dialer(host string, try *attempt) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("parsing address %s: %w", address, err)
		}
		entry, allowed := c.options.Allowed.allows(host, at, c.options.APIServers, c.options.Own)
		if !allowed {
			return nil, errForbidden
		}
		try.server.Store(&entry)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		by := &limited{Conn: conn}
		by.left.Store(maxBeforeLogin)
		try.conn.Store(by)
		return by, nil
	}
}

var errForbidden = NewError(Forbidden, "the operator may not connect to this host: --external-database-allowed-hosts "+
	"must list the host or, for a loopback or link-local address and for an API server, the address")

// limited is a connection that reads a limited number of bytes, so that a server cannot exhaust the memory.
type limited struct {
	net.Conn
	left  atomic.Int64
	first byte // the first byte that was read
	begun bool
}

var errTooMuch = errors.New("the server sent more data than the operator accepts")

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
