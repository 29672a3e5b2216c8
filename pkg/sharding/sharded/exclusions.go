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
	// agingInterval is how often all counts are halved, so that namespaces that no longer exist are forgotten. The
	// objects of a namespace with a small count are then received again for some minutes, and counted. It is also how
	// long nothing is excluded after a rejection.
	agingInterval = time.Hour
)

// exclusions choose namespaces that the API server excludes from lists and watches, if it does not have the feature
// ShardedListAndWatch. They choose the namespaces whose objects this process has discarded most often, and use a field
// selector, which all API servers support. The zero exclusions are ready to use, and are safe for concurrent use. Nil
// exclusions exclude nothing.
type exclusions struct {
	mu            sync.Mutex
	counts        map[string]int // discarded objects of each namespace
	halved        time.Time
	accepted      int       // the length of the longest selector in a successful request
	disabledUntil time.Time // after a rejected request
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
		e.counts, e.halved = map[string]int{}, time.Now()
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

// choose returns the namespaces to exclude from the lists and watches of some shards.
func (e *exclusions) choose(shards ...Filter) (excluded []string) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().Before(e.disabledUntil) {
		return nil
	}
	if time.Since(e.halved) >= agingInterval {
		e.halve()
	}
	length := 0
	for _, namespace := range slices.SortedFunc(maps.Keys(e.counts), e.byCount) {
		if slices.ContainsFunc(shards, func(f Filter) bool { return f.hasNamespace(namespace) }) {
			continue
		}
		if length += lengthOf(namespace); length > maxSelectorLength {
			break
		}
		excluded = append(excluded, namespace)
	}
	return excluded
}

// lengthOf returns the length of a field selector in a URL, in bytes.
func lengthOf(namespaces ...string) (length int) {
	for _, namespace := range namespaces {
		length += len(escapedTerm) + len(namespace)
	}
	return length
}

// escapedTerm is a term of the field selector in a URL, without the namespace.
const escapedTerm = "metadata.namespace%21%3D%2C"

func (e *exclusions) byCount(one, another string) int {
	return cmp.Or(cmp.Compare(e.counts[another], e.counts[one]), cmp.Compare(one, another))
}

// halve halves all counts, and forgets the namespaces whose count is 0.
func (e *exclusions) halve() {
	e.halved = time.Now()
	for namespace := range e.counts {
		e.counts[namespace] /= 2
	}
	maps.DeleteFunc(e.counts, func(_ string, count int) bool { return count == 0 })
}

// sendWithFallback sends a request that excludes namespaces. If the request may have been rejected because of that, it
// sends the request again without exclusions. If this one succeeds, later requests exclude nothing for an
// agingInterval. It returns the namespaces that the last request excluded.
func (e *exclusions) sendWithFallback(
	ctx context.Context, excluded []string, send func(excluded []string) error,
) ([]string, error) {
	rejected := send(excluded)
	if len(excluded) == 0 || ctx.Err() != nil || !e.isRejection(rejected, lengthOf(excluded...)) {
		return excluded, rejected
	}
	if err := send(nil); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().After(e.disabledUntil) {
		klog.FromContext(ctx).Error(rejected, "Request with a namespace field selector was rejected; watching "+
			"all namespaces", "retryAfter", agingInterval)
	}
	e.disabledUntil = time.Now().Add(agingInterval)
	return nil, nil
}

// isRejection reports whether err may mean that an API server does not know the field of the selector, or that a proxy
// does not accept its length.
func (e *exclusions) isRejection(err error, length int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.accepted = max(e.accepted, length)
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return e.accepted < length // a proxy may close the connection
	}
	code := status.Status().Code
	if !apierrors.IsUnexpectedServerError(err) { // the response is from an API server
		return code == http.StatusBadRequest
	}
	return code/100 == 4 && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// exclude returns options that exclude namespaces.
func exclude(options metav1.ListOptions, namespaces []string) metav1.ListOptions {
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
