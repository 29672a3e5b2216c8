package postgres

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Scripted is a fake PostgreSQL server. It runs a Script on each connection, and counts the connections.
type Scripted struct {
	// Port is the port on which the server listens.
	Port string

	listener net.Listener
	mu       sync.Mutex
	open     map[net.Conn]bool
	most     int
	total    int
	playing  sync.WaitGroup
}

// Script handles one connection, which is closed when the script returns.
type Script func(conn net.Conn)

// Play listens on a free port of host, and runs a script on each connection until Close.
func Play(host string, script Script) (*Scripted, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s := &Scripted{Port: port, listener: listener, open: map[net.Conn]bool{}}
	s.playing.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.enter(conn)
			s.playing.Go(func() {
				defer s.leave(conn)
				script(conn)
			})
		}
	})
	return s, nil
}

func (s *Scripted) enter(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = true
	s.total++
	s.most = max(s.most, len(s.open))
}

func (s *Scripted) leave(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

// Connections returns the largest number of simultaneous connections, and the total number.
func (s *Scripted) Connections() (most, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most, s.total
}

// Close closes the listener and all connections, and waits until all scripts have returned.
func (s *Scripted) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.playing.Wait()
}

// Silence is a Script that sends nothing, and returns when the connection ends.
func Silence(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// Hangup is a Script that resets the connection.
func Hangup(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }

// Says returns a Script that sends words after the first byte of the client, as a service that is not PostgreSQL could
// do.
func Says(words string) Script {
	return func(conn net.Conn) {
		first := make([]byte, 1)
		_, _ = conn.Read(first)
		_, _ = io.WriteString(conn, words)
		Silence(conn)
	}
}

// loggedIn returns a Script that accepts any login. After the login, the Script calls then.
func loggedIn(then func(backend *pgproto3.Backend)) Script {
	return func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if backend.Flush() == nil {
			then(backend)
		}
	}
}

// Flood returns a Script that accepts any login, and then sends rows until the connection ends.
func Flood() Script {
	return loggedIn(func(backend *pgproto3.Backend) {
		backend.Send(&pgproto3.RowDescription{})
		row := &pgproto3.DataRow{Values: [][]byte{make([]byte, 60<<10)}}
		for {
			backend.Send(row)
			if backend.Flush() != nil {
				return
			}
		}
	})
}

// Rejects returns a Script that rejects every login with an error. The message, the detail and the hint of the error
// are the text words.
func Rejects(code, words string) Script {
	return func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: words, Detail: words, Hint: words})
		_ = backend.Flush()
	}
}

// Slow returns a Script that accepts any login after the given time, and responds to no query.
func Slow(after time.Duration) Script {
	return func(conn net.Conn) {
		timer := time.NewTimer(after)
		defer timer.Stop()
		<-timer.C
		loggedIn(func(*pgproto3.Backend) { Silence(conn) })(conn)
	}
}

// Asks returns a Script that sends a request for the password. If the client responds, the Script calls got with the
// response.
func Asks(request pgproto3.BackendMessage, got func(response string)) Script {
	return func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(request)
		if backend.Flush() != nil {
			return
		}
		response := make([]byte, 1<<10)
		if n, err := conn.Read(response); err == nil {
			got(string(response[:n]))
		}
	}
}

// Bomb returns a Script that requests a SCRAM login with a number of iterations. If the client sends its proof, it has
// computed the iterations, and the Script calls proof.
func Bomb(iterations int, proof func()) Script {
	return func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}})
		if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeSASL) != nil {
			return
		}
		message, err := backend.Receive()
		initial, ok := message.(*pgproto3.SASLInitialResponse)
		if err != nil || !ok {
			return
		}
		_, nonce, _ := strings.Cut(string(initial.Data), "r=")
		backend.Send(&pgproto3.AuthenticationSASLContinue{
			Data: []byte("r=" + nonce + "theirs,s=c2FsdA==,i=" + strconv.Itoa(iterations)),
		})
		if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeSASLContinue) != nil {
			return
		}
		if message, err := backend.Receive(); err == nil {
			if _, ok := message.(*pgproto3.SASLResponse); ok {
				proof()
			}
		}
	}
}
