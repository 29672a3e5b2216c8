package at

import (
	"context"

	"windlass.dev/windlass/pkg/controller"
)

// Release implements controller.Releaser.
func (r *reconciler) Release(ctx context.Context, key controller.Key) (pending bool, err error) {
	pod, err := r.commands.Find(ctx, key, key.Name+podSuffix)
	if err != nil || pod == nil {
		return false, err
	}
	return r.commands.Awaits(pod), r.commands.ReleaseUnowned(ctx, key, pod)
}
