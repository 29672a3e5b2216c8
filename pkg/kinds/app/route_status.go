package app

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/pkg/controller"
)

// maxRouteProblem is the length in bytes to which a message of a Gateway controller is shortened.
const maxRouteProblem = 512

// withRoute returns the summary of an App whose rollout has the summary s. An App with a route is only Ready when all
// parents of the route have accepted it: before, no client reaches the App. r is nil if the App has no route.
func withRoute(s controller.Summary, r *route) controller.Summary {
	if r == nil || s.State != controller.StateReady {
		return s
	}
	var accepted []string
	for _, parent := range r.parents {
		name := nameOfParent(r.object.GetNamespace(), parent)
		problem, isPending := r.problemOf(parent)
		switch {
		case problem != "":
			return controller.Summary{
				State: controller.StateDegraded, Note: messageRouteRejected.Note(name, r.kind, r.object.GetName(), problem),
			}
		case isPending:
			return controller.Summary{
				State: controller.StateProgressing, Note: messageRoutePending.Note(name, r.kind, r.object.GetName()),
			}
		}
		accepted = append(accepted, name)
	}
	s.Message += messageRouteAccepted.With(r.kind, r.object.GetName(), strings.Join(slices.Compact(accepted), ", "))
	return s
}

// problemOf returns why a parent does not serve the route, or "". isPending is true if no controller has reported about
// the parent since the route has changed. Several controllers can report about a parent.
func (r *route) problemOf(parent gatewayv1.ParentReference) (problem string, isPending bool) {
	isPending = true
	for _, status := range r.status {
		if !r.isParent(status.ParentRef, parent) {
			continue
		}
		accepted := meta.FindStatusCondition(status.Conditions, string(gatewayv1.RouteConditionAccepted))
		if accepted == nil || accepted.ObservedGeneration < r.object.GetGeneration() ||
			accepted.Status == metav1.ConditionUnknown {
			continue
		}
		isPending = false
		for _, kind := range []gatewayv1.RouteConditionType{
			gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs,
		} {
			c := meta.FindStatusCondition(status.Conditions, string(kind))
			if c != nil && c.Status == metav1.ConditionFalse {
				return shortened(c.Reason + ": " + c.Message), false
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

// nameOfParent returns the name of a parent for messages, for example Gateway public/edge.
func nameOfParent(namespace string, parent gatewayv1.ParentReference) string {
	return string(*parent.Kind) + " " + string(ptr.Deref(parent.Namespace, gatewayv1.Namespace(namespace))) + "/" +
		string(parent.Name)
}

// shortened returns the beginning of a text of another controller, and adds a period if it has none.
func shortened(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxRouteProblem {
		text = strings.ToValidUTF8(text[:maxRouteProblem], "") + "…"
	}
	return strings.TrimSuffix(text, ".") + "."
}
