package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/webhook/certificate"
	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

const (
	namespace = "windlass-system"
	hostname  = "windlass-webhook.windlass-system.svc"
	day       = 24 * time.Hour
)

// operator runs replicas of the webhook against a fake API server.
type operator struct {
	t        *testing.T
	api      *webhooktest.API
	clock    *clocktesting.FakeClock
	replicas []*Server
	// gate stops the clock while a request is in flight.
	gate sync.RWMutex
	// answered counts the successful requests.
	answered atomic.Int64
}

func newOperator(t *testing.T) *operator {
	start := time.Date(2026, 2, 10, 20, 30, 0, 0, time.UTC)
	return &operator{t: t, api: webhooktest.NewAPI(t), clock: clocktesting.NewFakeClock(start)}
}

// replica returns a replica that does not run yet.
func (o *operator) replica(options Options) *Server {
	options.Address = "127.0.0.1:0"
	options.Certificate = certificate.Options{Namespace: namespace, ServiceName: "windlass-webhook", Clock: o.clock}
	return New(o.api.Kube, o.api.CRD, options)
}

// start runs concurrent replicas until the test ends, and waits until they are ready.
func start(t *testing.T, replicas int) *operator {
	o := newOperator(t)
	for range replicas {
		s := o.replica(Options{})
		if s.Ready() == nil {
			t.Error("it is ready before it runs")
		}
		o.replicas = append(o.replicas, s)
	}
	for _, s := range o.replicas {
		runUntilCleanup(t, s)
	}
	o.eventually("all replicas are ready", func() bool {
		for _, s := range o.replicas {
			if s.Ready() != nil {
				return false
			}
		}
		return true
	})
	return o
}

// runUntilCleanup runs a server until the test ends, and fails the test if Run returns an error. It returns a
// function that ends the server early.
func runUntilCleanup(t *testing.T, s *Server) context.CancelFunc {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the webhook ended with %v", err)
		}
		if s.Ready() == nil {
			t.Error("it is ready after its end")
		}
	})
	return cancel
}

func (o *operator) eventually(what string, condition func() bool) {
	o.t.Helper()
	err := wait.PollUntilContextTimeout(o.t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		o.t.Fatalf("%s: %v", what, err)
	}
}

// pass advances the clock while no request is in flight.
func (o *operator) pass(d time.Duration) {
	o.gate.Lock()
	defer o.gate.Unlock()
	o.clock.Step(d)
}

// bundle returns the caBundle of the CustomResourceDefinition.
func (o *operator) bundle() []byte {
	return o.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle
}

// transport returns a transport that trusts the current caBundle of the CustomResourceDefinition, and opens a
// new connection for each request.
func (o *operator) transport() *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.bundle())
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: hostname, Time: o.clock.Now},
		DisableKeepAlives: true,
	}
}

// convert sends a ConversionReview with one object to s, as the API server does.
func (o *operator) convert(s *Server) error {
	o.gate.RLock()
	defer o.gate.RUnlock()
	client := &http.Client{Transport: o.transport()}
	response, err := client.Post(s.url(), "application/json", strings.NewReader(reviewOf(oldAt)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return err
	}
	if review.Response == nil || review.Response.Result.Status != metav1.StatusSuccess {
		return fmt.Errorf("the answer is %+v", review.Response)
	}
	o.answered.Add(1)
	return nil
}

func (s *Server) url() string { return fmt.Sprintf("https://%s/convert", *s.listening.Load()) }

// convertAllTheTime calls all replicas concurrently until the test ends.
func (o *operator) convertAllTheTime() {
	ctx, cancel := context.WithCancel(o.t.Context())
	var running sync.WaitGroup
	o.t.Cleanup(func() { cancel(); running.Wait() })
	for _, s := range o.replicas {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := o.convert(s); err != nil {
					o.t.Errorf("a request failed: %v", err)
				}
			}
		})
	}
}

// awaitRequests waits for 20 more successful requests. Each replica has probably handled at least one of
// them.
func (o *operator) awaitRequests() {
	o.t.Helper()
	before := o.answered.Load()
	o.eventually("requests are answered", func() bool { return o.answered.Load() >= before+20 })
}

// awaitRenewal waits until all replicas serve with the same certificate, which differs from old. Then it waits for more
// requests, and returns the certificate.
func (o *operator) awaitRenewal(old *x509.Certificate) *x509.Certificate {
	o.t.Helper()
	var serving *x509.Certificate
	o.eventually("both replicas serve with one new certificate", func() bool {
		for i, s := range o.replicas {
			c, err := s.GetCertificate(nil)
			if err != nil || c.Leaf.Equal(old) || i > 0 && !c.Leaf.Equal(serving) {
				return false
			}
			serving = c.Leaf
		}
		return true
	})
	o.awaitRequests()
	return serving
}

func (o *operator) authorities() int {
	return strings.Count(string(o.bundle()), "BEGIN CERTIFICATE")
}

func TestNoRequestFailsWhileCertificatesAreRenewed(t *testing.T) {
	const due = 244 * day // two thirds of the lifetime of a serving certificate
	o := start(t, 2)
	o.convertAllTheTime()
	serving := o.awaitRenewal(nil)
	for age := due; age < 10*365*day*2/3; age += due { // until the CA is due, too
		o.pass(due)
		serving = o.awaitRenewal(serving)
	}
	o.pass(due)
	o.eventually("the new CA is trusted", func() bool { return o.authorities() == 2 })
	o.pass(time.Hour)
	o.awaitRenewal(serving)
	o.pass(time.Hour)
	o.eventually("the old CA is gone", func() bool { return o.authorities() == 1 })
	o.awaitRequests()
}

func TestReplicasThatStartTogetherShareCertificate(t *testing.T) {
	o := start(t, 5)
	o.eventually("the API server trusts the CA in the Secret", func() bool {
		return bytes.Equal(o.bundle(), o.api.Secret(namespace, certificate.SecretName).Data["ca.crt"])
	})
	for i, s := range o.replicas {
		if err := o.convert(s); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
	if writes := o.api.Writes(); len(writes) != 2 {
		t.Errorf("there are %d writes, want one of the Secret and one of the CustomResourceDefinition", len(writes))
	}
}

func TestServerRequiresTLS13(t *testing.T) {
	o := start(t, 1)
	transport := o.transport()
	transport.TLSClientConfig.MaxVersion = tls.VersionTLS12
	_, err := (&http.Client{Transport: transport}).Get(o.replicas[0].url())
	if err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
		t.Errorf("TLS 1.2: %v", err)
	}
}

func TestServerEndsWithoutFailedRequest(t *testing.T) {
	const delay = 5 * time.Second
	o := newOperator(t)
	s := o.replica(Options{ShutdownDelay: delay})
	end := runUntilCleanup(t, s)
	o.eventually("it is ready", func() bool { return s.Ready() == nil })
	transport, url := o.transport(), s.url()
	transport.DisableKeepAlives = false
	transport.ExpectContinueTimeout = time.Hour // the client sends a body only after the server has requested it
	convert := func(body io.Reader) (closed bool, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		if err != nil {
			return false, err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Expect", "100-continue")
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "Success") {
			return false, fmt.Errorf("status %d, %s, %w", response.StatusCode, text, err)
		}
		return response.Close, nil
	}
	review := reviewOf(oldAt)
	if closed, err := convert(strings.NewReader(review)); closed || err != nil {
		t.Errorf("while the webhook goes on, a connection is closed: %t, %v", closed, err)
	}
	body, feed := io.Pipe()
	inFlight := make(chan error, 1)
	go func() {
		_, err := convert(body)
		inFlight <- err
	}()
	if _, err := io.WriteString(feed, review[:10]); err != nil {
		t.Fatal(err)
	}
	end()
	o.eventually("it is about to end", s.ending.Load)
	if closed, err := convert(strings.NewReader(review)); !closed || err != nil {
		t.Errorf("while the webhook is about to end, a connection is closed: %t, %v", closed, err)
	}
	o.clock.Step(delay)
	o.eventually("it does not listen", func() bool {
		_, err := convert(strings.NewReader(review))
		return err != nil
	})
	if _, err := io.WriteString(feed, review[10:]); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if err := <-inFlight; err != nil {
		t.Errorf("the request in flight failed: %v", err)
	}
}

func TestRunReturnsErrorIfAddressIsInUse(t *testing.T) {
	o := start(t, 1)
	taken := (*o.replicas[0].listening.Load()).String()
	s := New(o.api.Kube, o.api.CRD, Options{Address: taken})
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "serving conversions: listening on "+taken) {
		t.Errorf("Run returned %v", err)
	}
}
