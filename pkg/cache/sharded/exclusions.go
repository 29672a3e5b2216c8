package sharded

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

const (
	// maxSelectorLength limits the length of a field selector in a URL, in bytes. Common proxies accept URLs of 8 KB.
	maxSelectorLength = 6 << 10
	// maxCounted limits the number of namespaces whose objects are counted. An entry takes about 100 bytes.
	maxCounted = 10_000
	// agingInterval is how often all counts are halved, so that namespaces that no longer exist are forgotten. The objects of a namespace with a
	// small count are then received again for some minutes, and counted. It is also how long nothing is left out after a refusal.
	agingInterval = time.Hour
)

// exclusions choose namespaces that an API server without the feature ShardedListAndWatch leaves out of lists and watches, by a field selector.
// They choose the namespaces from which this process received most objects in vain. All API servers support that selector.
// The zero exclusions are ready to use, and are safe for concurrent use. Nil exclusions leave out nothing.
type exclusions struct {
	mu      sync.Mutex
	counts  map[string]int // objects of each namespace that this process has received and discarded
	aged    time.Time
	works   bool      // whether a request that left out namespaces has succeeded
	refused time.Time // until then, nothing is left out
}

// discarded counts an object.
func (e *exclusions) discarded(object runtime.Object) {
	accessor, err := meta.Accessor(object)
	if e == nil || err != nil || accessor.GetNamespace() == "" {
		return
	}
	namespace := accessor.GetNamespace()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts, e.aged = map[string]int{}, time.Now()
	}
	if _, counted := e.counts[namespace]; counted {
		e.counts[namespace]++
		return
	}
	if len(e.counts) == maxCounted {
		e.halve()
	}
	if len(e.counts) < maxCounted {
		e.counts[strings.Clone(namespace)] = 1 // the name may be a part of a large message
	}
}

// outside returns the namespaces to leave out of the lists and watches of some shards.
func (e *exclusions) outside(shards []Filter) (excluded []string) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().Before(e.refused) {
		return nil
	}
	if time.Since(e.aged) >= agingInterval {
		e.halve()
	}
	length := 0
	for _, namespace := range slices.SortedFunc(maps.Keys(e.counts), e.byCount) {
		if slices.ContainsFunc(shards, func(f Filter) bool { return f.hasNamespace(namespace) }) {
			continue
		}
		if length += len(escapedTerm) + len(namespace); length > maxSelectorLength {
			break
		}
		excluded = append(excluded, namespace)
	}
	return excluded
}

// escapedTerm is a term of the field selector in a URL, without the namespace.
const escapedTerm = "metadata.namespace%21%3D%2C"

func (e *exclusions) byCount(one, another string) int {
	return cmp.Or(cmp.Compare(e.counts[another], e.counts[one]), cmp.Compare(one, another))
}

// halve halves all counts, and forgets the namespaces whose count is 0.
func (e *exclusions) halve() {
	e.aged = time.Now()
	for namespace := range e.counts {
		e.counts[namespace] /= 2
	}
	maps.DeleteFunc(e.counts, func(_ string, count int) bool { return count == 0 })
}

// try sends a request that leaves out namespaces. If the request is refused, try sends it again without that, and requests leave out nothing
// for an agingInterval. It returns the namespaces that the last request left out.
func (e *exclusions) try(ctx context.Context, excluded []string, send func(excluded []string) error) ([]string, error) {
	err := send(excluded)
	if len(excluded) == 0 || !e.refuses(ctx, err) {
		return excluded, err
	}
	return nil, send(nil)
}

// refuses handles the result of a request that left out namespaces. It reports whether the request was refused.
func (e *exclusions) refuses(ctx context.Context, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.works = e.works || err == nil
	if err == nil || ctx.Err() != nil || !isRefusal(err, e.works) {
		return false
	}
	if time.Now().After(e.refused) {
		klog.FromContext(ctx).Error(err, "A request that asked the API server to leave out other namespaces has failed. For a while, this process receives the objects of all namespaces", "for", agingInterval)
	}
	e.refused = time.Now().Add(agingInterval)
	return true
}

// isRefusal reports whether an API server may not know the field of a selector, or a proxy may not accept its length. works is whether a
// request with such a selector has succeeded before.
func isRefusal(err error, works bool) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !works // a proxy may close the connection
	}
	code := status.Status().Code
	if !apierrors.IsUnexpectedServerError(err) { // the response is from an API server
		return code == http.StatusBadRequest
	}
	return code/100 == 4 && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// leaveOut returns options that leave out namespaces.
func leaveOut(options metav1.ListOptions, namespaces []string) metav1.ListOptions {
	terms := make([]string, 0, len(namespaces)+1)
	if options.FieldSelector != "" {
		terms = append(terms, options.FieldSelector)
	}
	for _, namespace := range namespaces {
		terms = append(terms, fields.OneTermNotEqualSelector("metadata.namespace", namespace).String())
	}
	options.FieldSelector = strings.Join(terms, ",")
	return options
}
