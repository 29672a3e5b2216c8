package report

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// WaitingOf returns why an object is not Ready. ok is false if the object is Ready or has no condition Ready.
func WaitingOf(kind string, obj controller.Object) (p Problem, ok bool) {
	ready := meta.FindStatusCondition(*obj.StatusConditions(), conditions.Ready)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return p, false
	}
	return Problem{
		Object: nameOf(kind, obj.GetNamespace(), obj.GetName()), Reason: ready.Reason, Message: ready.Message,
	}, true
}

// Fail adds an object for which the plan lacks steps.
func (p *Plan) Fail(kind, namespace, name string, err error) {
	p.Failed = append(p.Failed, Problem{Object: nameOf(kind, namespace, name), Message: err.Error()})
	p.Summary.Failed++
}

// nameOf returns the name of an object in texts, for example App shop/web.
func nameOf(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
