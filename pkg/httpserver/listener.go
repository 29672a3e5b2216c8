package httpserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/time/rate"
)

// listener closes the connections that exceed its Quota.
type listener struct {
	net.Listener
	connections *Quota
	log         logWriter
	logging     rate.Sometimes
}

// newListener returns a listener with the limits of each server, which logs at most once a second that it has closed a
// connection.
func newListener(tcp net.Listener, connections *Quota, log logWriter) *listener {
	return &listener{tcp, connections, log, rate.Sometimes{Interval: time.Second}}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if giveBack, ok := l.connections.Take(accepted.RemoteAddr().String()); ok {
			return &connection{Conn: accepted, giveBack: giveBack}, nil
		}
		l.logging.Do(func() {
			_, _ = fmt.Fprintf(l.log, "closing a connection from %s: too many connections are open", accepted.RemoteAddr())
		})
		_ = accepted.Close()
	}
}

// connection gives its unit of the Quota back when it is closed.
type connection struct {
	net.Conn
	giveBack func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.giveBack()
	return c.Conn.Close()
}

// CloseWrite closes the connection for writing. net/http calls it, so that a client that still sends its request
// reads the response before the connection is closed.
func (c *connection) CloseWrite() error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return errors.ErrUnsupported
	}
	return tcp.CloseWrite()
}
