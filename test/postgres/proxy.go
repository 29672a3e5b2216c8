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

// Proxy stands between clients and a server that talk without TLS. It notes what they
// ask for, and cuts a connection where it is told to.
type Proxy struct {
	// Port is where it listens, on 127.0.0.1.
	Port string

	target   string
	listener net.Listener
	decide   func(what string) Cut

	mu      sync.Mutex
	asked   []string
	cutAt   string // what is asked for, by how it begins
	further int    // how many of these go by first; negative means that nothing is cut
	cut     Cut
	clients []net.Conn
}

// Cut says when a connection is cut.
type Cut string

// Cuts.
const (
	// BeforeStatement cuts before the server hears of it.
	BeforeStatement Cut = "before"
	// AfterStatement cuts when the server has done it, before the client hears of that.
	AfterStatement Cut = "after"
)

// Login is what Asked has for a login.
const Login = "login"

// NewProxy returns a proxy in front of an address, which ends with the test.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := Intercept(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Intercept returns a proxy in front of an address. decide is asked at each login and
// statement whether, and when, to cut the connection; nil cuts where CutAt says.
func Intercept(target string, decide func(what string) Cut) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, decide: decide, further: -1}
	if decide == nil {
		p.decide = p.ask
	}
	_, p.Port, _ = net.SplitHostPort(listener.Addr().String()) // it is one
	go p.serve()
	return p, nil
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.CutAll()
}

// Asked are the logins and statements so far, each before it was done.
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

// CutAt cuts a connection, once, at a login or statement that begins so, after n
// further ones of these.
func (p *Proxy) CutAt(what string, n int, cut Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt, p.further, p.cut = what, n, cut
}

// WasCut tells whether the connection has been cut.
func (p *Proxy) WasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.further < 0
}

// CutAll ends all connections.
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

// ask notes what is asked, and says how to cut it.
func (p *Proxy) ask(what string) Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, what)
	if p.further < 0 || !strings.HasPrefix(what, p.cutAt) {
		return ""
	}
	p.further--
	if p.further >= 0 {
		return ""
	}
	return p.cut
}

// relay takes one connection through its life
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
		answers(client, server, swallow)
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
		default: // an answer to the server, or the end
			what = ""
		}
		if p.pass(server, what, batch, swallow) != nil {
			return
		}
		batch, what = nil, ""
	}
}

// pass sends to the server, and returns an error if the connection is to be cut first.
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

// answers sends answers to the client. Once they are swallowed it returns when the server is
// ready for the next statement.
func answers(client, server net.Conn, swallow chan struct{}) {
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

// message reads one message, with its type unless it is the first of a client's.
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
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	text := append(head, make([]byte, size)...)
	_, err := io.ReadFull(from, text[len(head):])
	return text, err
}
