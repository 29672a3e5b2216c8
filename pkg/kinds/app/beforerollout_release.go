package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// Release implements controller.Releaser.
func (b *beforeRollout) Release(ctx context.Context, key controller.Key) (pending bool, err error) {
	pod, err := b.commands.Find(ctx, key, key.Name+runPodSuffix)
	if err != nil || pod == nil {
		return false, err
	}
	return b.commands.Awaits(pod), b.commands.ReleaseUnowned(ctx, key, pod)
}

// releaseEnded releases a Pod after the status says how its command ended, a Pod that is deleted before its command has
// run, and a Pod that does not belong to the App. It returns the Pod. pod may be nil.
func (b *beforeRollout) releaseEnded(ctx context.Context, app *v1alpha1.App, pod *corev1.Pod) (*corev1.Pod, error) {
	switch {
	case pod == nil:
		return nil, nil
	case isSettled(app, pod):
		return b.commands.Release(ctx, keyOf(app), pod)
	case isRecorded(app, pod):
		return pod, nil
	case !metav1.IsControlledBy(pod, app):
		return pod, b.commands.ReleaseUnowned(ctx, keyOf(app), pod)
	case isGated(pod) && pod.DeletionTimestamp != nil:
		return b.commands.Release(ctx, keyOf(app), pod)
	}
	return pod, nil
}

// settle records how a command ended, and releases its Pod, while no template can be rolled out.
func (b *beforeRollout) settle(ctx context.Context, p *scope) error {
	pod, err := b.find(ctx, p.app)
	if err != nil || pod == nil {
		return err
	}
	if isRunning(p.app) && pod.UID == p.app.Status.BeforeRolloutRuns[0].PodUID {
		if end, _ := b.endingOf(pod); end != nil {
			ended(p, nil, end)
		}
		return nil
	}
	_, err = b.releaseEnded(ctx, p.app, pod)
	return err
}
