package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// serve starts a server that responds to every request with its path, and returns its address.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }),
		TLS:     config, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// dial opens a connection from a loopback address.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestListenerClosesConnectionsBeyondLimits opens 800 connections from one address, as an attacker does.
func TestListenerClosesConnectionsBeyondLimits(t *testing.T) {
	tcp, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	const total, perAddress, attempts = 100, 64, 800
	var logged atomic.Int32
	l := newListener(tcp, NewQuota(total, perAddress), func(string) { logged.Add(1) })
	accepted := make(chan net.Conn, attempts)
	go func() {
		defer close(accepted)
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			accepted <- conn
		}
	}()
	isClosed := func(conn net.Conn) bool {
		_, err := conn.Read(make([]byte, 1))
		return err != nil
	}
	var first net.Conn // as the server sees it
	for i := range attempts {
		conn := dial(t, "127.0.0.1", l.Addr().String())
		if i == 0 {
			first = <-accepted
		} else if i < perAddress {
			<-accepted
		} else if !isClosed(conn) {
			t.Fatalf("connection %d is open", i)
		}
	}
	for range total - perAddress {
		dial(t, "127.0.0.2", l.Addr().String())
		<-accepted
	}
	if conn := dial(t, "127.0.0.3", l.Addr().String()); !isClosed(conn) {
		t.Errorf("there are more than %d connections", total)
	}
	if logged.Load() == 0 {
		t.Error("the log does not say that connections are closed")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	dial(t, "127.0.0.3", l.Addr().String())
	<-accepted
	tcp.Close()
	if more := len(accepted); more > 0 {
		t.Errorf("%d more connections are accepted", more)
	}
}

// TestServerRejectsLargeHeader sends a header of 1 MiB.
func TestServerRejectsLargeHeader(t *testing.T) {
	address := serve(t, nil)
	header := []byte("GET /x HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20))
	conn := dial(t, "127.0.0.1", address)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() { _, _ = conn.Write(header) }() // fails when the server closes the connection
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	runtime.ReadMemStats(&after)
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge || !response.Close {
		t.Errorf("status %d, closed: %t", response.StatusCode, response.Close)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<10 {
		t.Errorf("a header of 1 MiB takes %d bytes", taken)
	}
}

func TestServerAcceptsHeaderWithToken(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+serve(t, nil)+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 12<<10))
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(body, []byte("/x")) {
		t.Errorf("got %s, %v", body, err)
	}
}

func TestServerDoesNotOfferHTTP2(t *testing.T) {
	chain, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}})
	conn := tls.Client(dial(t, "127.0.0.1", address),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the server chooses %q", got)
	}
}

func TestListenReturnsErrorIfAddressIsInUse(t *testing.T) {
	address := serve(t, nil)
	_, err := Listen(t.Context(), address, Options{})
	if err == nil || !strings.Contains(err.Error(), "listening on "+address) {
		t.Errorf("got error %v", err)
	}
}
