package at

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Release implements controller.Releaser.
func (r *reconciler) Release(ctx context.Context, key controller.Key) (pending bool, err error) {
	pod, err := r.cache.Pods(key.Namespace).Get(key.Name + podSuffix)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Pod %s/%s from the cache: %w", key.Namespace, key.Name+podSuffix, err)
	}
	return pods.IsTracked(pod), r.commands.ReleaseUnowned(ctx, key, pod)
}
