package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// roundTripper is a fake API server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silence waits until the request is canceled, and sends no response.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// half sends the headers of a response. It sends no body, and closes the response when the request is canceled.
func half(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = w.CloseWithError(r.Context().Err()) })
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r,
	}, nil
}

// clientsOf returns clients that send their requests to server.
func clientsOf(t *testing.T, server roundTripper) (kubernetes.Interface, metadata.Interface) {
	t.Helper()
	config := WithTimeout(&rest.Config{Host: "http://nowhere", Transport: server, QPS: -1})
	kube, err1 := kubernetes.NewForConfig(WithProtobuf(config))
	meta, err2 := metadata.NewForConfig(config)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return kube, meta
}

func TestRequestWithoutResponseIsCanceled(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]roundTripper{"no answer": silence, "half an answer": half} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kube, meta := clientsOf(t, server)
				requests := map[string]func() error{
					"a write": func() error {
						_, err := kube.CoreV1().ConfigMaps("ns").Create(t.Context(), &corev1.ConfigMap{}, metav1.CreateOptions{})
						return err
					},
					"a list": func() error {
						_, err := kube.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
						return err
					},
					"a get of metadata": func() error {
						_, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("ns").
							Get(t.Context(), "a", metav1.GetOptions{})
						return err
					},
				}
				if name == "no answer" {
					requests["a watch"] = func() error {
						_, err := kube.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{})
						return err
					}
				}
				for what, ask := range requests {
					before := time.Now()
					if err := ask(); err == nil || !strings.Contains(err.Error(), errUnanswered.Error()) {
						t.Errorf("%s ended with %v, want %v", what, err, errUnanswered)
					}
					if took := time.Since(before); took != requestTimeout {
						t.Errorf("%s was given up after %v, want %v", what, took, requestTimeout)
					}
				}
			})
		})
	}
}

func TestExpiredContextIsNotReportedAsMissingResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), requestTimeout/2)
		defer cancel()
		kube, _ := clientsOf(t, silence)
		_, err := kube.CoreV1().ConfigMaps("ns").Get(ctx, "a", metav1.GetOptions{})
		if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			t.Errorf("a request ended with %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestStartedWatchIsNotCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube, _ := clientsOf(t, half)
		w, err := kube.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		select {
		case event := <-w.ResultChan():
			t.Errorf("a watch of which nothing came for a while ended with %v", event)
		case <-time.After(24 * time.Hour):
		}
	})
}
