package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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

// write is a request that changes something, as it was sent.
type write struct {
	Method, Path string
	// ContentType is of the body, and Accept of what may be answered: the API server takes
	// more time to write JSON than protobuf.
	ContentType, Accept string
	Body                []byte
}

func (w write) isEvent() bool { return strings.Contains(w.Path, "/events") }

// tape is what Windlass writes for the first object of a kind, bytes and all.
type tape struct {
	subject subject
	UID     string
	Writes  []write
}

// keep puts a tape into a file.
func (t *tape) keep(file string) error { return writeJSON(file, t) }

// readTape reads one of a subject.
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

// gateway is a way to the API server on which somebody listens, without TLS.
type gateway struct {
	kubeconfig string
	server     *http.Server
}

func (g *gateway) close() { _ = g.server.Close() }

// openGateway has listen see each request, and count be told how many bytes came back.
func openGateway(dir string, config *rest.Config, listen func(*http.Request, []byte), count func(int)) (*gateway, error) {
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
		r.Body = &counted{r.Body, count}
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gateway{kubeconfig: filepath.Join(dir, "gateway.kubeconfig"), server: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // who hangs up has asked for nothing
		r.Body = io.NopCloser(bytes.NewReader(body))
		listen(r, body)
		proxy.ServeHTTP(w, r)
	})}}
	go func() { _ = g.server.Serve(listener) }() // until close
	return g, clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"bench": {Server: "http://" + listener.Addr().String()}},
		AuthInfos:      map[string]*api.AuthInfo{"bench": {}},
		Contexts:       map[string]*api.Context{"bench": {Cluster: "bench", AuthInfo: "bench", Namespace: "default"}},
		CurrentContext: "bench",
	}, g.kubeconfig)
}

// counted tells of the bytes that are read.
type counted struct {
	io.ReadCloser
	tell func(int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.tell(n)
	return n, err
}

// record has a contestant see to one object, and returns what it writes.
func (l *lab) record(ctx context.Context, s subject, dir string, c contestant) (*tape, error) {
	t, mu := &tape{subject: s}, sync.Mutex{}
	g, err := openGateway(dir, l.config, func(r *http.Request, body []byte) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/bench-") {
			mu.Lock()
			defer mu.Unlock()
			t.Writes = append(t.Writes, write{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Accept"), body})
		}
	}, func(int) {})
	if err != nil {
		return nil, err
	}
	defer g.close()
	if _, err := l.see(ctx, s, dir, c, 1, g.kubeconfig); err != nil {
		return nil, err
	}
	made, err := l.metadata.Resource(s.of).Namespace(namespace(0)).Get(ctx, s.name(0), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	t.UID = string(made.UID)
	if len(t.Writes) != s.writes {
		return nil, fmt.Errorf("%s has sent %d writes for one of %s, not %d:\n%s", c.name, len(t.Writes), s.of.Resource, s.writes, t)
	}
	return t, nil
}

// String lists the writes.
func (t *tape) String() string {
	var text strings.Builder
	for _, w := range t.Writes {
		fmt.Fprintf(&text, "%s %s %s, %d bytes\n", w.Method, w.Path, w.ContentType, len(w.Body))
	}
	return text.String()
}
