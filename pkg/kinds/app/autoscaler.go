package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// autoscalerRecheck is how often an App is reconciled while a HorizontalPodAutoscaler of somebody else scales its
// Deployment. The operator does not watch that HorizontalPodAutoscaler.
const autoscalerRecheck = time.Minute

// findAutoscaler sets p.autoscaler to a HorizontalPodAutoscaler of somebody else that scales the Deployment of the
// App. The operator then does not set the number of replicas. Otherwise, the operator and the HorizontalPodAutoscaler
// would change the number again and again.
func (r *reconciler) findAutoscaler(ctx context.Context, p *scope) error {
	if !p.mayBeScaled() {
		return nil
	}
	all, err := r.kube.AutoscalingV2().HorizontalPodAutoscalers(p.app.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the HorizontalPodAutoscalers in namespace %s: %w", p.app.Namespace, err)
	}
	for i := range all.Items {
		found := &all.Items[i]
		if p.Owns(found) || found.DeletionTimestamp != nil || !scales(found, p.app) {
			continue
		}
		if ptr.Deref(p.before.Spec.Replicas, 1) == 0 && !scalesToZero(found) {
			continue
		}
		if p.autoscaler == nil || found.Name < p.autoscaler.Name { // the list may have any order
			p.autoscaler = found
		}
	}
	return nil
}

// mayBeScaled reports whether somebody else may scale the Deployment: the operator did not set the number of replicas,
// or the number differs from the number that the operator set. An App with 0 replicas has no Pods, whatever others set.
func (p *scope) mayBeScaled() bool {
	if isAutoscaled(p.app) || !p.hasDeployment() {
		return false
	}
	desired, live := ptr.Deref(p.app.Spec.Replicas, 1), ptr.Deref(p.before.Spec.Replicas, 1)
	if desired == 0 {
		return false
	}
	applied := appliedReplicas(p.before)
	return applied == nil || *applied == desired && live != desired
}

// appliedReplicas returns the number of replicas that the operator applied last, or nil if it applied none.
func appliedReplicas(d *appsv1.Deployment) *int32 {
	var record struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(d.Annotations[children.RecordAnnotation]), &record); err != nil {
		return nil
	}
	return record.Spec.Replicas
}

// scales reports whether a HorizontalPodAutoscaler scales the Deployment of an App.
func scales(autoscaler *autoscalingv2.HorizontalPodAutoscaler, app *v1alpha1.App) bool {
	target := autoscaler.Spec.ScaleTargetRef
	version, err := schema.ParseGroupVersion(target.APIVersion)
	return err == nil && version.Group == appsv1.GroupName && target.Kind == "Deployment" && target.Name == app.Name
}

// scalesToZero reports whether KEDA owns a HorizontalPodAutoscaler. KEDA scales from and to 0 Pods, which a
// HorizontalPodAutoscaler by itself does not (https://keda.sh/docs/latest/concepts/scaling-deployments/).
func scalesToZero(autoscaler *autoscalingv2.HorizontalPodAutoscaler) bool {
	owner := metav1.GetControllerOfNoCopy(autoscaler)
	return owner != nil && owner.Kind == "ScaledObject"
}

// autoscalerNote says that p.autoscaler sets the number of Pods. p.autoscaler is not nil.
func (p *scope) autoscalerNote() controller.Note {
	target := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q}`,
		v1alpha1.SchemeGroupVersion, groupVersionKind.Kind, p.app.Name)
	return messageAutoscaler.Note(p.autoscaler.Name, p.app.Name, target)
}

// hasYielded reports whether this reconcile has left the number of replicas to p.autoscaler for the first time.
func (p *scope) hasYielded() bool {
	return p.autoscaler != nil && p.deployment != nil &&
		appliedReplicas(p.before) != nil && appliedReplicas(p.deployment) == nil
}
