package sharded

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discard counts an object of a namespace some times.
func discard(e *exclusions, namespace string, times int) {
	for range times {
		e.discarded(object(namespace, 1))
	}
}

func TestBusiestNamespacesOfOtherShardsAreExcluded(t *testing.T) {
	e := &exclusions{}
	discard(e, low, 5)
	discard(e, high, 7)
	discard(e, "kube-system", 3)
	discard(e, "", 9) // a cluster-scoped object
	for name, c := range map[string]struct {
		shards []Filter
		want   []string
	}{
		"of one shard":  {[]Filter{half(true, false)}, []string{high, "kube-system"}},
		"of two shards": {[]Filter{half(true, false), half(false, false)}, nil},
		"of no shard":   {nil, []string{high, low, "kube-system"}},
	} {
		if got := e.choose(c.shards...); !slices.Equal(got, c.want) {
			t.Errorf("outside %s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestExclusionsFitIntoURL(t *testing.T) {
	e := &exclusions{}
	for i := range 1000 {
		discard(e, fmt.Sprintf("tenant-%03d", i), 1)
	}
	query := url.Values{"fieldSelector": {exclude(metav1.ListOptions{}, e.choose()).FieldSelector}}.Encode()
	if length := len(query); length < maxSelectorLength*9/10 || length > maxSelectorLength+len("fieldSelector=") {
		t.Errorf("the selector has %d bytes: %.200s", length, query)
	}
}

func TestBusyNamespaceIsExcludedHoweverManyThereAre(t *testing.T) {
	e := &exclusions{}
	discard(e, "busy", 2)
	for i := range maxCounted {
		discard(e, fmt.Sprintf("tenant-%06d", i), 1)
	}
	discard(e, "later", 2)
	if got := e.choose()[:2]; len(e.counts) > maxCounted || !slices.Equal(got, []string{"later", "busy"}) {
		t.Errorf("got %q of %d namespaces", got, len(e.counts))
	}
}

func TestExclusionsAreAddedToFieldSelector(t *testing.T) {
	options := exclude(metav1.ListOptions{FieldSelector: "metadata.name=it"}, []string{"a", "b"})
	if want := "metadata.name=it,metadata.namespace!=a,metadata.namespace!=b"; options.FieldSelector != want {
		t.Errorf("got %s, want %s", options.FieldSelector, want)
	}
}

func TestQuietNamespacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exclusions{}
		discard(e, low, 1)
		discard(e, high, 2)
		if got := e.choose(); len(got) != 2 {
			t.Errorf("got %q at once", got)
		}
		<-time.After(agingInterval)
		if got := e.choose(); !slices.Equal(got, []string{high}) {
			t.Errorf("got %q after an interval", got)
		}
	})
}

func TestNothingIsExcludedAfterRejection(t *testing.T) {
	proxy := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "", "no", 0, true)
	}
	for name, c := range map[string]struct {
		err error
		// whether the error comes before a request that excludes namespaces has succeeded, and is a rejection
		before, reject bool
	}{
		"an API server that does not know the field": {apierrors.NewBadRequest("field label not supported"), false, true},
		"a proxy that accepts only short URLs":       {proxy(http.StatusRequestURITooLong), false, true},
		"a proxy that accepts only short headers":    {proxy(http.StatusRequestHeaderFieldsTooLarge), false, true},
		"a proxy that finds the URL suspicious":      {proxy(http.StatusForbidden), false, true},
		"a proxy that is busy":                       {proxy(http.StatusTooManyRequests), true, false},
		"a proxy without API server":                 {proxy(http.StatusBadGateway), true, false},
		"a user without the right":                   {apierrors.NewForbidden(schema.GroupResource{}, "", nil), true, false},
		"an old version":                             {apierrors.NewResourceExpired("too old"), true, false},
		"a proxy that closes the connection":         {errors.New("EOF"), true, true},
		"a lost connection":                          {errors.New("EOF"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, u := newStream(ofMetadataObjects, &exclusions{}), &upstream{}
				discard(s.exclusions, high, 2)
				begin := func() error {
					w, err := s.watch(t.Context(), half(true, false), metav1.ListOptions{ResourceVersion: "5"}, u.open)
					if err == nil {
						w.Stop()
						synctest.Wait()
					}
					return err
				}
				if !c.before {
					_ = begin()
				}
				u.begun, u.rejected = nil, c.err
				if err := begin(); c.reject != (err == nil) || err != nil && !errors.Is(err, c.err) {
					t.Errorf("got the error %v", err)
				}
				u.rejected = nil
				_ = begin()
				<-time.After(agingInterval)
				_ = begin()
				want := []string{"5 metadata.namespace!=default", "5 metadata.namespace!=default", "5 metadata.namespace!=default"}
				if c.reject {
					want = []string{"5 metadata.namespace!=default", "5", "5", "5 metadata.namespace!=default"}
				}
				u.expect(t, want...)
			})
		})
	}
}

// TestExclusionsGoOnIfTheyAreNotTheCause has a request that fails with and without exclusions.
func TestExclusionsGoOnIfTheyAreNotTheCause(t *testing.T) {
	e := &exclusions{}
	discard(e, high, 1)
	excluded, err := e.sendWithFallback(t.Context(), e.choose(), func([]string) error {
		return apierrors.NewBadRequest("no")
	})
	if err == nil || excluded != nil || len(e.choose()) != 1 {
		t.Errorf("got %q, %v; then %q are excluded", excluded, err, e.choose())
	}
}

// TestLongerSelectorMayBeRejected has a proxy that closes the connection of a request with long names of namespaces,
// although it has accepted more namespaces with short names.
func TestLongerSelectorMayBeRejected(t *testing.T) {
	e, long := &exclusions{}, []string{strings.Repeat("a", 63), strings.Repeat("b", 63)}
	if _, err := e.sendWithFallback(t.Context(), []string{"a", "b", "c"}, func([]string) error {
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	excluded, err := e.sendWithFallback(t.Context(), long, func(excluded []string) error {
		if len(excluded) > 0 {
			return errors.New("the connection was closed")
		}
		return nil
	})
	if err != nil || excluded != nil {
		t.Errorf("got %q, %v", excluded, err)
	}
}
