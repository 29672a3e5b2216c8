package operator

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// weighed are the resources whose objects Weigh counts. They include the components of Platforms.
var weighed = []schema.GroupVersionResource{
	cnatv1.SchemeGroupVersion.WithResource("ats"),
	v1alpha1.SchemeGroupVersion.WithResource("apps"),
	v1alpha1.SchemeGroupVersion.WithResource("databases"),
	v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"),
}

// Weigh returns the number of objects of the kinds in each namespace. It reads their metadata, a page at a time. If
// some kinds cannot be listed, it counts the objects of the other kinds. It returns an error if no kind can be listed,
// or if ctx ends.
func Weigh(ctx context.Context, client metadata.Interface) (map[string]int, error) {
	weights, failed := map[string]int{}, []error{}
	for _, resource := range weighed {
		pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource).List(ctx, options)
		})
		pages.PageBufferSize = 0
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			accessor, err := meta.Accessor(object)
			if err == nil {
				weights[accessor.GetNamespace()]++
			}
			return err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("listing %s: %w", resource.Resource, err))
		}
	}
	if len(failed) == len(weighed) || ctx.Err() != nil {
		return nil, errors.Join(failed...)
	}
	return weights, nil
}
