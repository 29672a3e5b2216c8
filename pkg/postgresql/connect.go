package postgresql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Nothing waits for a server for longer than this.
const (
	connectTimeout = 5 * time.Second // name, connection, TLS and login
	lookTimeout    = 5 * time.Second // a query
	changeTimeout  = time.Minute     // a statement that copies or deletes files, or waits for a checkpoint
)

// Connector connects to servers. It is safe for concurrent use, and shared by all, so
// that it knows which of them are away.
type Connector struct {
	allowed AllowedHosts
	gate    *gate
}

// NewConnector returns a Connector for the servers that are allowed.
func NewConnector(allowed AllowedHosts) *Connector {
	return &Connector{allowed: allowed, gate: newGate(time.Now)}
}

// connect logs in. Its errors have a Class.
func (c *Connector) connect(ctx context.Context, s Settings) (*session, error) {
	leave, err := c.gate.enter(s.Address())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := c.dial(ctx, s)
	if err != nil {
		err = NewError(classOfConnect(err), "connecting to the server at %s as %q: %w", s.Address(), s.Username, lasting(err))
	}
	leave(err)
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

// lasting is an error of pgconn's without what is said already, and without the port that
// an attempt came from: it would make one attempt's error differ from the next one's.
func lasting(err error) error {
	var (
		attempt   *pgconn.ConnectError
		operation *net.OpError
	)
	if errors.As(err, &attempt) {
		err = attempt.Unwrap()
	}
	if errors.As(err, &operation) && operation.Source != nil {
		return errors.New(strings.ReplaceAll(err.Error(), operation.Source.String()+"->", ""))
	}
	return err
}

// config says all, so that nothing comes from the environment or from files.
func (c *Connector) config(s Settings) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig("host=localhost sslmode=disable user=nobody password=none") // pgconn takes no other
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.User, config.Password, config.Database = s.Host, s.Port, s.Username, s.Password, s.Database
	if config.TLSConfig, err = s.tls(); err != nil {
		return nil, err
	}
	config.Fallbacks, config.SSLNegotiation, config.RequireAuth = nil, "", ""
	if !s.verified() {
		config.RequireAuth = "!password" // it could be anybody who asks
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams = map[string]string{
		"application_name": "windlass", "client_encoding": "UTF8", "search_path": "pg_catalog",
		"standard_conforming_strings": "on", "default_transaction_read_only": "off",
		"lock_timeout": fmt.Sprint(changeTimeout.Milliseconds()), "statement_timeout": fmt.Sprint(changeTimeout.Milliseconds()),
	}
	config.DialFunc = c.dialAllowed(s.Host)
	return config, nil
}

// dialAllowed dials addresses of a host, after they were looked up, if they are
// allowed.
func (c *Connector) dialAllowed(host string) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !c.allowed.name(host) {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return nil, fmt.Errorf("reading the address %s: %w", address, err)
			}
			if !c.allowed.address(at.Addr()) {
				return nil, NewError(Forbidden, "neither the host %s nor its address %s is in --external-database-allowed-hosts", host, at.Addr())
			}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
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
