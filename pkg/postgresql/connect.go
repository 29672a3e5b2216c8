package postgresql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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

// maxAnswer is how many bytes a server may say in one session.
const maxAnswer = 4 << 20

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
	// UntrustedExtensions are those that the administrator makes where the owner may not.
	// Their scripts run with the administrator's rights, in a schema that the owner may
	// write to: an extension whose script is not careful can be made to do anything.
	UntrustedExtensions []string
}

// NewConnector returns a Connector. It fails only if the environment has variables for
// libpq that cannot be read; those that can have no effect.
func NewConnector(options Options) (*Connector, error) {
	base, err := pgconn.ParseConfig("host=localhost sslmode=disable user=nobody password=none")
	if err != nil {
		return nil, fmt.Errorf("reading libpq's variables of the environment: %w", err)
	}
	return &Connector{options: options, gate: newGate(time.Now), base: base}, nil
}

// connect logs in. Its errors have a Class.
func (c *Connector) connect(ctx context.Context, s Settings) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := c.dial(ctx, s)
	if err != nil {
		err = NewError(classOfConnect(err), "connecting to the server at %s as %q: %w", s.Address(), s.Username, plain(err))
	}
	if err != nil {
		return nil, err
	}
	return &session{conn: conn}, nil
}

func (c *Connector) dial(ctx context.Context, s Settings) (*pgconn.PgConn, error) {
	config, err := c.config(s)
	if err != nil {
		return nil, err
	}
	return pgconn.ConnectConfig(ctx, config)
}

// config says all, so that nothing comes from the environment or from files.
func (c *Connector) config(s Settings) (*pgconn.Config, error) {
	var err error
	config := c.base.Copy()
	config.Host, config.Port, config.User, config.Password, config.Database = s.Host, s.Port, s.Username, s.Password, s.Database
	if config.TLSConfig, err = s.tls(); err != nil {
		return nil, err
	}
	config.Fallbacks, config.SSLNegotiation, config.RequireAuth, config.ChannelBinding = nil, "", "", "prefer"
	config.ValidateConnect, config.MinProtocolVersion, config.MaxProtocolVersion = nil, "3.0", "3.0"
	config.MaxProtocolMessageBodyLen = maxAnswer
	if !s.verified() {
		config.RequireAuth = "!password" // it could be anybody who asks
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams = map[string]string{
		"application_name": "windlass", "client_encoding": "UTF8", "search_path": "pg_catalog",
		"standard_conforming_strings": "on", "default_transaction_read_only": "off",
		"lock_timeout": milliseconds(lockTimeout), "statement_timeout": milliseconds(statementTimeout), "idle_session_timeout": "0",
	}
	config.DialFunc = c.dialAllowed(s.Host)
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// dialAllowed dials addresses of a host, after they were looked up, if they are
// allowed.
func (c *Connector) dialAllowed(host string) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !c.options.Allowed.name(host) {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return nil, fmt.Errorf("reading the address %s: %w", address, err)
			}
			if !c.options.Allowed.address(at.Addr()) {
				return nil, NewError(Forbidden, "neither the host %s nor its address %s is in --external-database-allowed-hosts", host, at.Addr())
			}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &limited{Conn: conn, left: maxAnswer}, nil
	}
}

// limited is a connection by which a server can tell only so much: one that is none
// could fill the memory.
type limited struct {
	net.Conn
	left int
}

func (l *limited) Read(into []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the server says more than it is asked for")
	}
	n, err := l.Conn.Read(into[:min(len(into), l.left)])
	l.left -= n
	return n, err
}

// session is one connection.
type session struct {
	conn *pgconn.PgConn
}

// exec does a statement, or several of which all or none is done.
func (s *session) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err := s.conn.Exec(ctx, sql).ReadAll()
	return err
}

// close says goodbye, but does not wait for an answer.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // it is gone either way
}
