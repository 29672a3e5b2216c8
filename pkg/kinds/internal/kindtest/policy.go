package kindtest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"windlass.dev/windlass/pkg/controller"
)

// RelabelPods changes each Pod that the operator creates or patches from now on, as an admission policy does: it gives
// the Pod another value of the label by which caches select Pods.
func (c *Cluster) RelabelPods() {
	reactions := slices.Clone(c.Kube.ReactionChain)
	relabel := func(action clienttesting.Action) (bool, runtime.Object, error) {
		for _, r := range reactions {
			if !r.Handles(action) {
				continue
			}
			handled, object, err := r.React(action.DeepCopy())
			if !handled {
				continue
			}
			if pod, ok := object.(*corev1.Pod); ok && err == nil {
				metav1.SetMetaDataLabel(&pod.ObjectMeta, controller.ManagedByLabel, "policy")
				err = c.Kube.Tracker().Update(action.GetResource(), pod, pod.Namespace)
				if apierrors.IsNotFound(err) {
					err = nil // the patch has removed the last finalizer of a deleted Pod
				}
			}
			return true, object, err
		}
		return false, nil, nil
	}
	c.Kube.PrependReactor("create", "pods", relabel)
	c.Kube.PrependReactor("patch", "pods", relabel)
}
