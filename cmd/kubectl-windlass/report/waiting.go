package report

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// WaitingOf says why an object is not Ready. ok is false if it is Ready, or does not exist.
func WaitingOf(obj *unstructured.Unstructured) (w Waiting, ok bool) {
	if obj == nil {
		return w, false
	}
	ready := Condition(obj, conditions.Ready)
	if ready["status"] == "True" {
		return w, false
	}
	w = Waiting{Object: nameOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())}
	w.Reason, _ = ready["reason"].(string)
	w.Message, _ = ready["message"].(string)
	return w, w.Message != ""
}

// Fail adds an object for which the plan lacks steps.
func (p *Plan) Fail(kind, namespace, name string, err error) {
	p.Failed = append(p.Failed, Waiting{Object: nameOf(kind, namespace, name), Message: err.Error()})
	p.Summary.Errors++
}

// Condition returns the condition of a type, or nil.
func Condition(obj *unstructured.Unstructured, kind string) map[string]any {
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, condition := range all {
		if c, ok := condition.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// nameOf returns the name of an object in texts, for example App shop/web.
func nameOf(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
