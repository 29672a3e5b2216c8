package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// write is a request that changes something, as it was sent.
type write struct {
	method, path, contentType string
	body                      []byte
}

func (w write) isEvent() bool { return strings.Contains(w.path, "/events") }

// tape is what Windlass writes for the first object of a kind, bytes and all.
type tape struct {
	subject subject
	uid     string
	writes  []write
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
			t.writes = append(t.writes, write{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body})
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
	t.uid = string(made.UID)
	if len(t.writes) != s.writes {
		return nil, fmt.Errorf("%s has sent %d writes for one of %s, not %d:\n%s", c.name, len(t.writes), s.of.Resource, s.writes, t)
	}
	return t, nil
}

// String lists the writes.
func (t *tape) String() string {
	var text strings.Builder
	for _, w := range t.writes {
		fmt.Fprintf(&text, "%s %s %s, %d bytes\n", w.method, w.path, w.contentType, len(w.body))
	}
	return text.String()
}

var version = regexp.MustCompile(`"resourceVersion":"\d+"`)

// of is a write for another object. Names and UIDs are as long as those on the tape, so that
// protobuf stays what it is.
func (t *tape) of(w write, a *metav1.PartialObjectMetadata) write {
	change := strings.NewReplacer(t.subject.name(0), a.Name, namespace(0), a.Namespace, t.uid, string(a.UID))
	w.path = change.Replace(w.path)
	w.body = []byte(change.Replace(string(w.body)))
	if strings.HasSuffix(w.path, "/status") {
		w.body = version.ReplaceAll(w.body, []byte(`"resourceVersion":"`+a.ResourceVersion+`"`))
	}
	return w
}

// play sends the writes of all objects from a number on, by as many workers as a contestant
// has, and does nothing else. It begins at an instant, or at once if that is over.
func (l *lab) play(ctx context.Context, s subject, t *tape, from int, instant time.Time) error {
	client, err := rest.HTTPClientFor(l.config)
	if err != nil {
		return err
	}
	list, err := l.metadata.Resource(s.of).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(instant)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	todo, events := make(chan *metav1.PartialObjectMetadata), make(chan write, len(list.Items)*len(t.writes))
	failures := make(chan error, workers+1)
	var group, told sync.WaitGroup
	told.Go(func() { // as in Windlass, one after the other, beside the work
		for e := range events {
			if _, err := l.send(ctx, client, e); err != nil {
				failures <- err
				return
			}
		}
	})
	for range workers {
		group.Go(func() {
			for a := range todo {
				if err := l.playOne(ctx, client, t, a, events); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for i := range list.Items {
		if list.Items[i].Name < s.name(from) {
			continue
		}
		select {
		case todo <- &list.Items[i]:
		case err := <-failures:
			return err
		}
	}
	close(todo)
	group.Wait()
	close(events)
	told.Wait()
	close(failures)
	return <-failures
}

func (l *lab) playOne(ctx context.Context, client *http.Client, t *tape, a *metav1.PartialObjectMetadata, events chan<- write) error {
	for _, w := range t.writes {
		if w = t.of(w, a); w.isEvent() {
			events <- w
			continue
		}
		answer, err := l.send(ctx, client, w)
		if err != nil {
			return err
		}
		if strings.HasSuffix(w.path, "/status") {
			if err := json.Unmarshal(answer, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lab) send(ctx context.Context, client *http.Client, w write) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, w.method, l.config.Host+w.path, bytes.NewReader(w.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", w.contentType)
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = errors.New(w.method + " " + w.path + ": " + string(answer))
	}
	return answer, err
}
