package controllertest

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
)

// isCustom reports whether object is a custom resource.
func isCustom(object runtime.Object) bool {
	_, _, err := kubescheme.Scheme.ObjectKinds(object)
	return err != nil
}

// hasGeneration reports whether the API server counts the generations of objects of this type.
func hasGeneration(object runtime.Object) bool {
	switch object.(type) {
	case *corev1.Pod, *appsv1.Deployment, *appsv1.StatefulSet, *networkingv1.Ingress, *policyv1.PodDisruptionBudget:
		return true
	}
	return isCustom(object)
}

// withoutStatus returns an object without its status.
func withoutStatus(object runtime.Object) (runtime.Object, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	return fromFields(object, fields)
}

// fromFields returns an object of the type of like that has these fields.
func fromFields(like runtime.Object, fields map[string]any) (runtime.Object, error) {
	object, _ := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	return object, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object)
}

// finalizerOf returns the finalizer that a deletion adds for its propagation policy, or "".
func finalizerOf(opts metav1.DeleteOptions) string {
	if opts.PropagationPolicy == nil {
		return ""
	}
	switch *opts.PropagationPolicy {
	case metav1.DeletePropagationForeground:
		return metav1.FinalizerDeleteDependents
	case metav1.DeletePropagationOrphan:
		return metav1.FinalizerOrphanDependents
	}
	return ""
}

// isLastFinalizerRemoved reports whether a write removed the last finalizer of an object that is being deleted.
func isLastFinalizerRemoved(before, after runtime.Object) bool {
	was, err1 := meta.Accessor(before)
	is, err2 := meta.Accessor(after)
	return err1 == nil && err2 == nil && is.GetDeletionTimestamp() != nil && len(was.GetFinalizers()) > 0 &&
		len(is.GetFinalizers()) == 0
}
