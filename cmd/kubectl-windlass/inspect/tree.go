package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// Row is a line of a tree.
type Row struct {
	// Name is the kind and name of the object, after the lines of the tree.
	Name string
	// Phase is the phase of the object, or a short form of its state.
	Phase string
	// Reason is the reason of the condition Ready. For a Pod, it is why a container waits or ended.
	Reason string
	Age    string
}

// Tree returns the tree of an object and the objects that it owns, directly or not. Ages are relative to now.
func Tree(root *unstructured.Unstructured, all *Objects, now time.Time) []Row {
	t := &tree{all: all, now: now, seen: sets.New[types.UID]()}
	t.add("", "", root)
	return t.rows
}

type tree struct {
	all  *Objects
	now  time.Time
	rows []Row
	// seen are the objects of the tree. Owner references of users can have cycles.
	seen sets.Set[types.UID]
}

// add adds the rows of an object and of the objects that it owns. first is the prefix of the row of the object, and
// rest is the prefix of the other rows.
func (t *tree) add(first, rest string, obj *unstructured.Unstructured) {
	row := Row{Name: first + obj.GetKind() + "/" + obj.GetName(), Phase: phase(obj), Reason: reason(obj)}
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		row.Age = duration.HumanDuration(t.now.Sub(created.Time))
	}
	t.rows = append(t.rows, row)
	if t.seen.Has(obj.GetUID()) {
		return
	}
	t.seen.Insert(obj.GetUID())
	branches := t.branches(obj)
	for i, b := range branches {
		first, next := "├── ", "│   "
		if i == len(branches)-1 {
			first, next = "└── ", "    "
		}
		if b.obj != nil {
			t.add(rest+first, rest+next, b.obj)
			continue
		}
		b.row.Name = rest + first + b.row.Name
		t.rows = append(t.rows, b.row)
	}
}

// branch is an object of the cluster, or a row for something else, such as a role on a PostgreSQL server.
type branch struct {
	obj *unstructured.Unstructured
	row Row
}

func (t *tree) branches(obj *unstructured.Unstructured) (all []branch) {
	if obj.GetKind() == "Platform" {
		return t.components(obj)
	}
	for _, child := range t.all.OwnedBy(obj) {
		all = append(all, branch{obj: child})
	}
	if obj.GetKind() == "ExternalDatabase" {
		if server := text(obj, "status", "serverDatabase"); server != "" || text(obj, "status", "externalID") != "" {
			state := "Creating"
			if text(obj, "status", "externalID") != "" {
				state = "Exists"
			}
			owner := cmp.Or(text(obj, "spec", "owner"), text(obj, "spec", "databaseName"))
			all = append(all,
				branch{row: Row{Name: "role " + owner + " on the server", Phase: state}},
				branch{row: Row{Name: "database " + text(obj, "spec", "databaseName") + " on the server", Phase: state}})
		}
	}
	return all
}

// components returns the children of a Platform in the order of its components. A component without a child has a row.
func (t *tree) components(platform *unstructured.Unstructured) (all []branch) {
	for _, c := range componentsOf(platform) {
		name := platform.GetName() + "-" + string(c.Name)
		if child := t.all.Find(c.Kind, name); child != nil {
			all = append(all, branch{obj: child})
			continue
		}
		all = append(all, branch{row: Row{Name: c.Kind + "/" + name, Phase: string(c.Phase), Reason: c.Reason}})
	}
	return all
}

// componentsOf returns the components in the status of a Platform, or none if the status cannot be decoded.
func componentsOf(platform *unstructured.Unstructured) []v1alpha1.PlatformComponentStatus {
	typed := v1alpha1.Platform{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(platform.Object, &typed); err != nil {
		return nil
	}
	return typed.Status.Components
}

// phase returns status.phase, or the state of an object without one.
func phase(obj *unstructured.Unstructured) string {
	if obj.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	if phase := text(obj, "status", "phase"); phase != "" {
		return phase
	}
	switch obj.GetKind() {
	case "Deployment", "StatefulSet", "ReplicaSet":
		wanted, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		ready, _, _ := unstructured.NestedInt64(obj.Object, "status", "readyReplicas")
		return fmt.Sprintf("%d/%d ready", ready, wanted)
	}
	return ""
}

// reason returns the reason of the condition Ready of an object of Windlass. For a Pod, it returns why a container
// waits or ended.
func reason(obj *unstructured.Unstructured) string {
	if obj.GetKind() == "Pod" {
		return podReason(obj)
	}
	if !IsOwn(obj.GroupVersionKind()) {
		return ""
	}
	ready, _ := condition(obj, conditions.Ready)
	return ready.Reason
}

func podReason(obj *unstructured.Unstructured) string {
	pod := corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &pod); err != nil {
		return ""
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := s.State.Waiting; waiting != nil && waiting.Reason != "" {
			return waiting.Reason
		}
		if ended := s.State.Terminated; ended != nil && ended.Reason != "" && ended.Reason != "Completed" {
			return ended.Reason
		}
	}
	if scheduled, ok := condition(obj, "PodScheduled"); ok && scheduled.Status == "False" {
		return scheduled.Reason
	}
	return strings.TrimSpace(pod.Status.Reason)
}
