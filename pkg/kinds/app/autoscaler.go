package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
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

// findAutoscaler returns the HorizontalPodAutoscaler of somebody else that scales d, the Deployment of the App, or nil.
// The operator leaves the number of replicas to this HorizontalPodAutoscaler, so that the two do not overwrite each
// other's number again and again.
func (r *reconciler) findAutoscaler(
	ctx context.Context, p *scope, d *appsv1.Deployment,
) (other *autoscalingv2.HorizontalPodAutoscaler, err error) {
	if !mayBeScaled(p.app, d) {
		return nil, nil
	}
	all, err := r.kube.AutoscalingV2().HorizontalPodAutoscalers(p.app.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the HorizontalPodAutoscalers in namespace %s: %w", p.app.Namespace, err)
	}
	for i := range all.Items {
		found := &all.Items[i]
		if p.Owns(found) || found.DeletionTimestamp != nil || !scales(found, p.app) {
			continue
		}
		if ptr.Deref(d.Spec.Replicas, 1) == 0 && !scalesToZero(found) {
			continue
		}
		if other == nil || found.Name < other.Name { // the list may have any order
			other = found
		}
	}
	return other, nil
}

// mayBeScaled reports whether somebody else may scale d, the Deployment of an App, which may be nil. Either the
// operator did not set the number of replicas, or the live number differs from the number that the operator set and the
// spec still has. mayBeScaled returns false for an App with 0 replicas, which has no Pods whatever others set.
func mayBeScaled(app *v1alpha1.App, d *appsv1.Deployment) bool {
	if isAutoscaled(app) || d == nil {
		return false
	}
	desired, live := ptr.Deref(app.Spec.Replicas, 1), ptr.Deref(d.Spec.Replicas, 1)
	if desired == 0 {
		return false
	}
	applied := appliedReplicas(d)
	return applied == nil || *applied == desired && live != desired
}

// appliedReplicas returns the number of replicas that the operator applied last, or nil if the operator left the number
// unset.
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

// scalesToZero reports whether a HorizontalPodAutoscaler may have set 0 Pods, and starts Pods again. KEDA does this for
// its own HorizontalPodAutoscalers (https://keda.sh/docs/latest/concepts/scaling-deployments/). Another one does it if
// its minimum is 0, unless somebody else has set 0 Pods: it then reports ScalingDisabled (k8s.io/kubernetes,
// pkg/controller/podautoscaler).
func scalesToZero(autoscaler *autoscalingv2.HorizontalPodAutoscaler) bool {
	if owner := metav1.GetControllerOfNoCopy(autoscaler); owner != nil && owner.Kind == "ScaledObject" {
		return true
	}
	isDisabled := func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason == "ScalingDisabled"
	}
	return ptr.Deref(autoscaler.Spec.MinReplicas, 1) == 0 && !slices.ContainsFunc(autoscaler.Status.Conditions, isDisabled)
}

// unscaled is how long a HorizontalPodAutoscaler may be unable to scale before the status of the App says so. New Pods
// have no metrics for a minute or two.
const unscaled = 5 * time.Minute

// inactive returns the sentence for the status of an App whose own HorizontalPodAutoscaler, which may be nil, has been
// unable to scale for the time unscaled, or "". It leaves out the message of the condition, which can change every few
// seconds. requeueAfter is positive if time alone can change the result.
func inactive(
	autoscaler *autoscalingv2.HorizontalPodAutoscaler, now time.Time,
) (sentence string, requeueAfter time.Duration) {
	if autoscaler == nil {
		return "", 0
	}
	for _, c := range autoscaler.Status.Conditions {
		if c.Type != autoscalingv2.ScalingActive || c.Status != corev1.ConditionFalse {
			continue
		}
		if left := c.LastTransitionTime.Add(unscaled).Sub(now); left > 0 {
			return "", left
		}
		since := c.LastTransitionTime.UTC().Format(time.RFC3339)
		return messageInactive.With(autoscaler.Name, since, c.Reason, autoscaler.Namespace), 0
	}
	return "", 0
}

// autoscalerNote returns a note that other, a HorizontalPodAutoscaler of somebody else, sets the number of Pods. other
// is not nil. The note has no advice if the App has an owner, such as a Platform, which reverts the spec of the App.
func autoscalerNote(app *v1alpha1.App, other *autoscalingv2.HorizontalPodAutoscaler) controller.Note {
	if metav1.GetControllerOfNoCopy(app) != nil {
		return messageAutoscaler.Note(other.Name, app.Name, "")
	}
	scaler := "HorizontalPodAutoscaler " + other.Name
	if owner := metav1.GetControllerOfNoCopy(other); owner != nil { // reverts the spec of the HorizontalPodAutoscaler
		scaler = owner.Kind + " " + owner.Name
	}
	target := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q}`,
		v1alpha1.SchemeGroupVersion, groupVersionKind.Kind, app.Name)
	return messageAutoscaler.Note(other.Name, app.Name, messageScaleApp.With(scaler, target))
}
