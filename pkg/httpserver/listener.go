package httpserver

import (
	"errors"
	"net"
)

// listener closes the connections that exceed its Quota.
type listener struct {
	net.Listener
	connections *Quota
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
		_ = accepted.Close() // there is nobody to tell
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
