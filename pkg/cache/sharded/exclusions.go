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
	// small count are then received again for some minutes, and counted.
	agingInterval = time.Hour
)

// exclusions choose namespaces that an API server without the feature ShardedListAndWatch leaves out of lists and watches, by a field selector.
// They choose the namespaces from which this process received most objects in vain. All API servers support that selector.
// The zero exclusions are ready to use, and are safe for concurrent use. Nil exclusions leave out nothing.
type exclusions struct {
	mu      sync.Mutex
	counts  map[string]int // objects of each namespace that this process has received and discarded
	aged    time.Time
	refused bool // by the API server or a proxy
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
	} else if len(e.counts) < maxCounted {
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
	if e.refused {
		return nil
	}
	e.age()
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

func (e *exclusions) age() {
	if e.counts == nil || time.Since(e.aged) < agingInterval {
		return
	}
	e.aged = time.Now()
	for namespace := range e.counts {
		e.counts[namespace] /= 2
	}
	maps.DeleteFunc(e.counts, func(_ string, count int) bool { return count == 0 })
}

// check handles the error of a request that left out namespaces. If they may be its cause, later requests leave out none.
func (e *exclusions) check(ctx context.Context, excluded []string, err error) {
	var status apierrors.APIStatus
	if len(excluded) == 0 || !errors.As(err, &status) {
		return
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge:
	default:
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.refused {
		e.refused = true
		klog.FromContext(ctx).Error(err, "The API server, or a proxy, refuses field selectors that leave out namespaces. This process receives the changes of all namespaces")
	}
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
