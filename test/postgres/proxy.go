package postgres

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy forwards connections without TLS to a server. It can cut a connection at a login or statement.
type Proxy struct {
	// Port is the port on which the proxy listens, on 127.0.0.1.
	Port string

	target   string
	listener net.Listener
	decide   func(what string) Cut

	mu         sync.Mutex
	statements []string
	cutAt      string // the prefix of the statement at which the proxy cuts
	skip       int    // the number of such statements that pass before the cut; negative: no cut
	cut        Cut
	clients    []net.Conn
}

// Cut says when a connection is cut.
type Cut string

// The values of Cut.
const (
	// BeforeStatement cuts before the server receives the statement.
	BeforeStatement Cut = "before"
	// AfterStatement cuts after the server has executed the statement, before the client receives the response.
	AfterStatement Cut = "after"
)

// Login is the text that identifies a login, where other texts are statements.
const Login = "login"

// NewProxy returns a proxy to an address. The proxy is closed when the test ends.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := Intercept(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Intercept returns a proxy to an address. The proxy calls decide at each login and statement. decide returns when to
// cut the connection, or "" to keep the connection. If decide is nil, the proxy records logins and statements, and
// CutAt selects the cut.
func Intercept(target string, decide func(what string) Cut) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, decide: decide, skip: -1}
	if decide == nil {
		p.decide = p.decideByCutAt
	}
	_, p.Port, _ = net.SplitHostPort(listener.Addr().String()) // the address has a port
	go p.serve()
	return p, nil
}

// Close closes the proxy and all its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.CutAll()
}

// Statements returns the logins and statements that a proxy without decide has recorded. The proxy records a login or
// statement before the server receives it.
func (p *Proxy) Statements() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.statements...)
}

// CutAt cuts one connection, at a login or statement with the prefix what. The proxy first lets n such
// statements pass.
func (p *Proxy) CutAt(what string, n int, cut Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt, p.skip, p.cut = what, n, cut
}

// WasCut reports whether the proxy has cut a connection since the last call of CutAt.
func (p *Proxy) WasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skip < 0
}

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, client := range p.clients {
		_ = client.Close()
	}
	p.clients = nil
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.clients = append(p.clients, client)
		p.mu.Unlock()
		go p.relay(client)
	}
}

// decideByCutAt records a login or statement, and returns when to cut the connection, or "".
func (p *Proxy) decideByCutAt(what string) Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statements = append(p.statements, what)
	if p.skip < 0 || !strings.HasPrefix(what, p.cutAt) {
		return ""
	}
	p.skip--
	if p.skip >= 0 {
		return ""
	}
	return p.cut
}

// relay forwards one connection until it ends
// (https://www.postgresql.org/docs/current/protocol-flow.html).
func (p *Proxy) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	swallow := make(chan struct{})
	start, err := message(client, false)
	if err != nil || p.pass(server, Login, start, swallow) != nil {
		return
	}
	go func() {
		relayResponses(client, server, swallow)
		_, _ = client.Close(), server.Close()
	}()
	var batch []byte
	for what := ""; ; {
		text, err := message(client, true)
		if err != nil {
			return
		}
		batch = append(batch, text...)
		switch text[0] {
		case 'P': // Parse: a name, and the statement
			what = strings.SplitN(string(text[5:]), "\x00", 3)[1]
			continue
		case 'Q': // Query
			what = strings.TrimSuffix(string(text[5:]), "\x00")
		case 'S': // Sync: the end of a batch
		case 'B', 'D', 'E', 'C', 'H':
			continue
		default: // for example a password, or the end of the connection
			what = ""
		}
		if p.pass(server, what, batch, swallow) != nil {
			return
		}
		batch, what = nil, ""
	}
}

// pass sends text to the server. what is the login or statement in the text, or "" for other messages. If the
// connection must be cut before the statement, pass returns an error and sends nothing. If the connection must be cut
// after the statement, pass closes swallow. pass also returns the error of a failed write.
func (p *Proxy) pass(server net.Conn, what string, text []byte, swallow chan struct{}) error {
	if what != "" {
		switch p.decide(what) {
		case BeforeStatement:
			return fmt.Errorf("cut before %s", what)
		case AfterStatement:
			close(swallow)
		}
	}
	_, err := server.Write(text)
	return err
}

// relayResponses sends the server's responses to the client. After swallow is closed, it sends only authentication
// messages, and returns when the server is ready for the next statement.
func relayResponses(client, server net.Conn, swallow chan struct{}) {
	for {
		text, err := message(server, true)
		if err != nil {
			return
		}
		select {
		case <-swallow:
			if text[0] == 'Z' { // ReadyForQuery
				return
			}
			if text[0] != 'R' { // Authentication: without it there is no login
				continue
			}
		default:
		}
		if _, err := client.Write(text); err != nil {
			return
		}
	}
}

// message reads one message. typed is true if the message has a type. All messages except the first message of a client
// have a type.
func message(from io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4)
	if typed {
		head = make([]byte, 5)
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if size < 0 || size > 1<<20 {
		return nil, fmt.Errorf("reading a message: invalid size of %d bytes", size)
	}
	text := append(head, make([]byte, size)...)
	_, err := io.ReadFull(from, text[len(head):])
	return text, err
}
