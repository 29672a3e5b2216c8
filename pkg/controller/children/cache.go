package children

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
)

// exceededRecheck is how often an owner is reconciled whose child is not cached because it exceeds a budget.
const exceededRecheck = time.Minute

// exceededError returns the error for a child that is not cached because it exceeds a budget.
func exceededError(err error) error {
	return controller.Stalled(messageExceeded.Error(err), exceededRecheck)
}

// Cache reads the children of one type. Callers must not change a child that Get returns.
type Cache[T Object] interface {
	controller.Store
	// Get returns a child, or NotFound.
	Get(namespace, name string) (T, error)
}

// CacheOf returns the Cache that reads an informer's indexer, which may be packed.
func CacheOf[T Object](indexer cache.Indexer) Cache[T] {
	var none T
	return &stored[T]{indexer, listers.New[T](indexer, schema.GroupResource{Resource: fmt.Sprintf("%T", none)})}
}

type stored[T Object] struct {
	controller.Store
	all listers.ResourceIndexer[T]
}

func (s *stored[T]) Get(namespace, name string) (T, error) {
	child, err := listers.NewNamespaced(s.all, namespace).Get(name)
	if exceeded := (*packed.ExceededError)(nil); errors.As(err, &exceeded) {
		err = exceededError(exceeded)
	}
	return child, err
}

// cached reads a child from the cache. If the child exceeded the budget of its namespace, and the budget
// has room for it again, cached reads the child from the API server and adds it to the cache.
func (t *Type[T]) cached(ctx context.Context, namespace, name string) (T, error) {
	child, err := t.Cache.Get(namespace, name)
	exceeded := (*packed.ExceededError)(nil)
	if !errors.As(err, &exceeded) || !exceeded.Fits() {
		return child, err
	}
	child, err = t.Client(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return child, controller.ErrDeletionNotObserved
	}
	if err != nil {
		return child, err
	}
	whole, ok := any(child).(packed.Whole) // the types that can be packed, among them all built-in types
	if !ok {
		return child, nil
	}
	return child, exceeded.Refill(whole)
}
