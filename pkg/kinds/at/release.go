package at

import (
	"context"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Release implements controller.Releaser.
func (r *reconciler) Release(ctx context.Context, key controller.Key) (pending bool, err error) {
	pod, err := r.commands.Find(ctx, key, key.Name+podSuffix)
	if err != nil || pod == nil {
		return false, err
	}
	return pods.IsTracked(pod), r.commands.ReleaseUnowned(ctx, key, pod)
}
