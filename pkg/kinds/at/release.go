package at

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
)

// Release implements controller.Releaser.
func (r *reconciler) Release(ctx context.Context, key controller.Key) error {
	pod, err := r.cache.Pods(key.Namespace).Get(key.Name + podSuffix)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s/%s from the cache: %w", key.Namespace, key.Name+podSuffix, err)
	}
	return r.commands.ReleaseUnowned(ctx, key, pod)
}
