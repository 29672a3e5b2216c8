package inspect

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// State is the state of an object of Windlass.
type State struct {
	*unstructured.Unstructured
	// Ready is the status of the condition Ready, or Unknown.
	Ready         metav1.ConditionStatus
	Phase, Reason string
	// rank orders objects: failed objects first, then objects that are not Ready, then Ready objects.
	rank int
}

// States returns the states of all objects: failed objects first, then objects that are not Ready, then Ready objects.
func (o *Objects) States() (all []State) {
	for _, obj := range o.all {
		s := State{Unstructured: obj, Ready: metav1.ConditionUnknown, Phase: phase(obj), Reason: reason(obj), rank: 1}
		if ready, ok := condition(obj, conditions.Ready); ok {
			s.Ready = ready.Status
		}
		if degraded, _ := condition(obj, conditions.Degraded); degraded.Status == metav1.ConditionTrue {
			s.rank = 0
		} else if s.Ready == metav1.ConditionTrue {
			s.rank = 2
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.GetNamespace(), b.GetNamespace()),
			cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}
