package app

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// withRoute returns the summary of an App: s, unless the rollout is Ready and a parent of the route does not serve the
// route. r is nil if the App has no route.
func withRoute(s controller.Summary, r *route) controller.Summary {
	if r == nil || s.State != controller.StateReady {
		return s
	}
	var accepted, pending []string
	for _, parent := range r.parents {
		name := nameOfParent(r.object.GetNamespace(), parent)
		problem, isPending := r.problemOf(parent)
		switch {
		case problem != "":
			note := messageRouteRejected.Note(name, r.kind, r.object.GetName(), problem)
			return controller.Summary{State: controller.StateDegraded, Note: note}
		case isPending:
			pending = append(pending, name)
		default:
			accepted = append(accepted, name)
		}
	}
	if len(pending) > 0 {
		note := messageRoutePending.Note(strings.Join(pending, ", "), r.kind, r.object.GetName())
		return controller.Summary{State: controller.StateProgressing, Note: note}
	}
	s.Message += messageRouteAccepted.With(r.kind, r.object.GetName(), strings.Join(accepted, ", "))
	return s
}

// problemOf returns the reason and message of a False condition Accepted or ResolvedRefs, or "". isPending is true if
// no controller has reported about the parent since the route has changed. Several controllers can report about a
// parent.
func (r *route) problemOf(parent gatewayv1.ParentReference) (problem string, isPending bool) {
	isPending = true
	for _, status := range r.status {
		if !r.isParent(status.ParentRef, parent) {
			continue
		}
		for _, kind := range []gatewayv1.RouteConditionType{
			gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs,
		} {
			c := meta.FindStatusCondition(status.Conditions, string(kind))
			isCurrent := c != nil && (c.ObservedGeneration == 0 || c.ObservedGeneration >= r.object.GetGeneration())
			switch {
			case isCurrent && c.Status == metav1.ConditionFalse:
				return strings.TrimSuffix(pods.OneLine(c.Reason+": "+c.Message), ".") + ".", false
			case isCurrent && c.Status == metav1.ConditionTrue && kind == gatewayv1.RouteConditionAccepted:
				isPending = false
			}
		}
	}
	return "", isPending
}

// isParent reports whether two references, which may lack default values, are equal.
func (r *route) isParent(a, b gatewayv1.ParentReference) bool {
	full := func(ref gatewayv1.ParentReference) gatewayv1.ParentReference {
		ref.Group = ptr.To(ptr.Deref(ref.Group, gatewayv1.GroupName))
		ref.Kind = ptr.To(ptr.Deref(ref.Kind, kindGateway))
		ref.Namespace = ptr.To(ptr.Deref(ref.Namespace, gatewayv1.Namespace(r.object.GetNamespace())))
		return ref
	}
	return equality.Semantic.DeepEqual(full(a), full(b))
}

// nameOfParent returns the name of a parent for messages, for example Gateway public/edge (https).
func nameOfParent(namespace string, parent gatewayv1.ParentReference) string {
	name := string(ptr.Deref(parent.Kind, kindGateway)) + " " +
		string(ptr.Deref(parent.Namespace, gatewayv1.Namespace(namespace))) + "/" + string(parent.Name)
	if parent.SectionName != nil {
		name += " (" + string(*parent.SectionName) + ")"
	}
	return name
}
