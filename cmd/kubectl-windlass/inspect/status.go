package inspect

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// State is the state of an object of Windlass.
type State struct {
	Kind, Namespace, Name string
	// Ready is the status of the condition Ready, or Unknown.
	Ready         string
	Phase, Reason string
	Degraded      bool
	Created       time.Time
}

// Own returns the states of the objects of Windlass in a namespace, or in all namespaces if namespace is empty, and of
// all Platforms. denied are the resources that the user may not list.
func (r Reader) Own(ctx context.Context, namespace string) (all []State, denied sets.Set[string], err error) {
	found := &Objects{Denied: sets.New[string]()}
	for _, resource := range Kinds {
		client := dynamic.ResourceInterface(r.Dynamic.Resource(resource))
		if resource.Resource != platforms {
			client = r.Dynamic.Resource(resource).Namespace(namespace)
		}
		list, err := client.List(ctx, metav1.ListOptions{})
		if ok, err := found.allowed(resource, err); !ok {
			if err != nil {
				return nil, nil, err
			}
			continue
		}
		for i := range list.Items {
			obj := &list.Items[i]
			ready, known := condition(obj, conditions.Ready)
			if !known {
				ready.Status = metav1.ConditionUnknown
			}
			degraded, _ := condition(obj, conditions.Degraded)
			all = append(all, State{
				Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), Ready: string(ready.Status),
				Phase:  phase(obj),
				Reason: ready.Reason, Degraded: degraded.Status == metav1.ConditionTrue, Created: obj.GetCreationTimestamp().Time,
			})
		}
	}
	return all, found.Denied, nil
}
