package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// write is a recorded request that changes something.
type write struct {
	Method, Path string
	// ContentType is the format of the body, and Accept the format of the response. The API server needs
	// more time to write JSON than protobuf.
	ContentType, Accept string
	Body                []byte
}

func (w write) isEvent() bool { return strings.Contains(w.Path, "/events") }

// tape has the writes that Windlass sends for the first object of a kind, byte for byte.
type tape struct {
	subject subject
	UID     string
	Writes  []write
}

// keep writes the tape to a file.
func (t *tape) keep(file string) error { return writeJSON(file, t) }

// readTape reads a tape from a file.
func readTape(file string, s subject) (*tape, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := &tape{subject: s}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return t, nil
}

// gateway is a proxy of the API server that records requests. Clients connect to it with TLS and HTTP/2, as to the API
// server.
type gateway struct {
	kubeconfig string
	server     *httptest.Server
}

func (g *gateway) close() {
	g.server.CloseClientConnections() // watches do not end by themselves
	g.server.Close()
}

// openGateway starts a gateway. It calls listen for each request, and count with the number of bytes of each
// read of the response to a request.
func openGateway(
	dir string, config *rest.Config, listen func(*http.Request, []byte), count func(*http.Request, int),
) (*gateway, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Body = &counted{r.Body, func(n int) { count(r.Request, n) }}
		return nil
	}
	g := &gateway{kubeconfig: filepath.Join(dir, "gateway.kubeconfig"),
		server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // it fails if the client closes the connection
			r.Body = io.NopCloser(bytes.NewReader(body))
			listen(r, body)
			proxy.ServeHTTP(w, r)
		}))}
	g.server.EnableHTTP2 = true
	g.server.StartTLS()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	return g, clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"bench": {Server: g.server.URL, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*api.AuthInfo{"bench": {}},
		Contexts:       map[string]*api.Context{"bench": {Cluster: "bench", AuthInfo: "bench", Namespace: "default"}},
		CurrentContext: "bench",
	}, g.kubeconfig)
}

// counted reports the number of bytes of each read.
type counted struct {
	io.ReadCloser
	tell func(int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.tell(n)
	return n, err
}

// record lets a contestant reconcile one object, and returns the writes of the contestant.
func (l *lab) record(ctx context.Context, s subject, dir string, c contestant) (*tape, error) {
	t, mu := &tape{subject: s}, sync.Mutex{}
	g, err := openGateway(dir, l.config, func(r *http.Request, body []byte) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/"+s.namespace(0)+"/") {
			mu.Lock()
			defer mu.Unlock()
			t.Writes = append(t.Writes, write{
				r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Accept"), body,
			})
		}
	}, func(*http.Request, int) {})
	if err != nil {
		return nil, err
	}
	defer g.close()
	if _, err := l.see(ctx, s, dir, c, 1, g.kubeconfig); err != nil {
		return nil, err
	}
	made, err := l.metadata.Resource(s.of).Namespace(s.namespace(0)).Get(ctx, s.name(0), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	t.UID = string(made.UID)
	if len(t.Writes) != s.writes {
		return nil, fmt.Errorf("%s sent %d writes for one object of %s, want %d:\n%s", c.name, len(t.Writes),
			s.of.Resource, s.writes, t)
	}
	return t, nil
}

// String returns the writes, one on each line.
func (t *tape) String() string {
	var text strings.Builder
	for _, w := range t.Writes {
		fmt.Fprintf(&text, "%s %s %s, %d bytes\n", w.Method, w.Path, w.ContentType, len(w.Body))
	}
	return text.String()
}
