package webhook

import (
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

// start runs concurrent replicas until the test ends, and waits until they are ready.
func start(t *testing.T, replicas int, options certificate.Options) *operator {
	o := &operator{
		t: t, api: webhooktest.NewAPI(t), clock: clocktesting.NewFakeClock(time.Date(2026, 2, 10, 20, 30, 0, 0, time.UTC)),
	}
	options.Namespace, options.Clock = namespace, o.clock
	for range replicas {
		s, err := New(o.api.Kube, o.api.CRD, Options{Address: "127.0.0.1:0", Certificate: options})
		if err != nil {
			t.Fatal(err)
		}
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

// transport returns a transport that trusts the current caBundle of the CustomResourceDefinition, and opens a
// new connection for each request.
func (o *operator) transport() *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle)
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

// awaitState waits until all replicas serve with the same certificate, which differs from old, and the caBundle has
// as many CAs as authorities. Then it waits for more requests, and returns the certificate.
func (o *operator) awaitState(what string, old *x509.Certificate, authorities int) *x509.Certificate {
	o.t.Helper()
	var serving *x509.Certificate
	o.eventually(what, func() bool {
		for i, s := range o.replicas {
			c, err := s.certificates.GetCertificate(nil)
			if err != nil || c.Leaf.Equal(old) || i > 0 && !c.Leaf.Equal(serving) {
				return false
			}
			serving = c.Leaf
		}
		return o.authorities() == authorities
	})
	o.awaitRequests()
	return serving
}

func (o *operator) authorities() int {
	bundle := o.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle
	return strings.Count(string(bundle), "BEGIN CERTIFICATE")
}

func TestNoRequestFailsWhileCertificatesAreRenewed(t *testing.T) {
	o := start(t, 2, certificate.Options{ServingLifetime: 90 * day, AuthorityLifetime: 120 * day})
	o.convertAllTheTime()
	serving := o.awaitState("both replicas serve with one certificate", nil, 1)
	o.pass(60 * day)
	serving = o.awaitState("the serving certificate is renewed", serving, 1)
	o.pass(20 * day)
	o.eventually("the new CA is trusted", func() bool { return o.authorities() == 2 })
	o.awaitRequests()
	o.pass(20 * day)
	o.awaitState("the new CA signs", serving, 2)
	o.pass(time.Hour)
	o.eventually("the old CA is gone", func() bool { return o.authorities() == 1 })
	o.awaitRequests()
}

func TestReplicasThatStartTogetherShareCertificate(t *testing.T) {
	o := start(t, 5, certificate.Options{})
	o.eventually("the API server trusts the CA in the Secret", func() bool {
		bundle := o.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle
		return string(bundle) == string(o.api.Secret(namespace, certificate.DefaultSecretName).Data["ca.crt"])
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
	o := start(t, 1, certificate.Options{})
	transport := o.transport()
	transport.TLSClientConfig.MaxVersion = tls.VersionTLS12
	_, err := (&http.Client{Transport: transport}).Get(o.replicas[0].url())
	if err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
		t.Errorf("TLS 1.2: %v", err)
	}
	response, err := (&http.Client{Transport: o.transport()}).Get(o.replicas[0].url())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.TLS.Version != tls.VersionTLS13 || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("TLS version %x, status %d", response.TLS.Version, response.StatusCode)
	}
}

func TestServerFinishesRequestInFlightOnShutdown(t *testing.T) {
	api := webhooktest.NewAPI(t)
	o := &operator{t: t, api: api, clock: clocktesting.NewFakeClock(time.Now())}
	s, err := New(api.Kube, api.CRD, Options{
		Address: "127.0.0.1:0", Certificate: certificate.Options{Namespace: namespace, Clock: o.clock},
	})
	if err != nil {
		t.Fatal(err)
	}
	end := runUntilCleanup(t, s)
	o.eventually("it is ready", func() bool { return s.Ready() == nil })

	// The client sends the body only after the server has requested it.
	transport := o.transport()
	transport.ExpectContinueTimeout = time.Hour
	body, feed := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	answered := make(chan error, 1)
	go func() {
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err == nil {
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", response.StatusCode)
			}
		}
		answered <- err
	}()
	review := reviewOf(oldAt)
	if _, err := io.WriteString(feed, review[:10]); err != nil {
		t.Fatal(err)
	}
	end()
	o.eventually("it is not ready any more", func() bool { return s.Ready() != nil })
	if _, err := io.WriteString(feed, review[10:]); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if err := <-answered; err != nil {
		t.Errorf("the request in flight failed: %v", err)
	}
}

func TestServerClosesConnectionsBeforeShutdown(t *testing.T) {
	const delay = 5 * time.Second
	api := webhooktest.NewAPI(t)
	o := &operator{t: t, api: api, clock: clocktesting.NewFakeClock(time.Now())}
	s, err := New(api.Kube, api.CRD, Options{
		Address: "127.0.0.1:0", ShutdownDelay: delay, Certificate: certificate.Options{Namespace: namespace, Clock: o.clock},
	})
	if err != nil {
		t.Fatal(err)
	}
	end := runUntilCleanup(t, s)
	defer func() {
		end()
		o.eventually("it waits before it ends", s.ending.Load)
		o.clock.Step(delay)
	}()
	o.eventually("it is ready", func() bool { return s.Ready() == nil })
	transport, url := o.transport(), s.url()
	transport.DisableKeepAlives = false
	convert := func() *http.Response {
		response, err := (&http.Client{Transport: transport}).Post(url, "application/json",
			strings.NewReader(reviewOf(oldAt)))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return response
	}
	if convert().Close {
		t.Error("a connection was given up although the webhook goes on")
	}
	end()
	o.eventually("it is about to end", s.ending.Load)
	if response := convert(); response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("the connection is kept, with status %d", response.StatusCode)
	}
}

func TestRunReturnsErrorIfAddressIsInUse(t *testing.T) {
	o := start(t, 1, certificate.Options{})
	taken := (*o.replicas[0].listening.Load()).String()
	s, err := New(o.api.Kube, o.api.CRD, Options{Address: taken, Certificate: certificate.Options{Namespace: namespace}})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "serving conversions: listening on "+taken) {
		t.Errorf("Run returned %v", err)
	}
	if _, err := New(nil, nil, Options{}); err == nil {
		t.Error("options without a namespace are taken")
	}
}
