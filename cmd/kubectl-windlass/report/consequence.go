package report

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"windlass.dev/windlass/pkg/plan"
)

// consequence returns a phrase about the effect of a write.
func consequence(w *plan.Write) string {
	switch {
	case w.After == nil:
		return deletion(w)
	case w.Before == nil:
		return "is created" + running(w.After)
	case isDeletion(w) && len(w.After.GetFinalizers()) > 0:
		return deletion(w) + " once its finalizers are removed: " + list(w.After.GetFinalizers())
	case isDeletion(w):
		return "is deleted after the grace period for its containers"
	case w.After.GetDeletionTimestamp() != nil && len(w.After.GetFinalizers()) == 0:
		return "loses its last finalizer, and is deleted"
	}
	changed := "is changed"
	if isAdoption(w) {
		changed = "is adopted"
	}
	switch w.Kind {
	case "Deployment", "StatefulSet":
		switch how := rollout(w); {
		case how == "":
			return changed + ", and its Pods keep running"
		case isAdoption(w):
			return changed + ", and " + how
		default:
			return how
		}
	}
	if only := finalizers(w); only != "" {
		return only
	}
	return changed
}

// isDeletion reports whether a write requests a deletion that does not happen at once.
func isDeletion(w *plan.Write) bool {
	return w.Before != nil && w.After != nil && w.After.GetDeletionTimestamp() != nil &&
		w.Before.GetDeletionTimestamp() == nil
}

func deletion(w *plan.Write) string {
	switch w.Kind {
	case "PersistentVolumeClaim":
		return "is deleted, with the volume and its data unless the reclaim policy of the volume is Retain"
	case "Deployment", "StatefulSet":
		return "is deleted, with its Pods"
	case "ExternalDatabase":
		if policy, _, _ := unstructured.NestedString(w.Before.Object, "spec", "deletionPolicy"); policy == "Delete" {
			return "is deleted, with its roles and its database on the PostgreSQL server"
		}
	}
	return "is deleted"
}

// running says what a new object runs.
func running(obj *unstructured.Unstructured) string {
	switch n, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas"); {
	case obj.GetKind() == "Pod":
		return " and runs its command"
	case found && n == 1:
		return " and starts 1 Pod"
	case found:
		return fmt.Sprintf(" and starts %d Pods", n)
	}
	return ""
}

// rollout says what happens to the Pods of a Deployment or StatefulSet. It returns "" if all of them keep running.
func rollout(w *plan.Write) string {
	get := func(obj *unstructured.Unstructured, path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
		return value
	}
	was, is := get(w.Before, "spec", "replicas"), get(w.After, "spec", "replicas")
	scaled := ""
	if !reflect.DeepEqual(was, is) {
		scaled = fmt.Sprintf("scales from %v to %v Pods", was, is)
	}
	replaced := !reflect.DeepEqual(get(w.Before, "spec", "template"), get(w.After, "spec", "template"))
	how := ""
	switch {
	case !replaced || is == int64(0):
	case get(w.After, "spec", "strategy", "type") == "Recreate":
		how = "stops all Pods, and then starts new Pods"
	case is == int64(1) && w.Kind == "StatefulSet":
		how = "restarts its Pod" + whichRuns(w.After)
	case w.Kind == "StatefulSet":
		how = "replaces its Pods one by one"
	default:
		how = "replaces its Pods in a rolling update"
	}
	if scaled != "" && how != "" {
		return how + ", and " + scaled
	}
	return scaled + how
}

// whichRuns returns ", which runs" and the value of the label app.kubernetes.io/name of the Pod of a StatefulSet. It
// returns "" for a Pod without this label.
func whichRuns(obj *unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "template", "metadata", "labels")
	if runs := labels["app.kubernetes.io/name"]; runs != "" {
		return ", which runs " + runs
	}
	return ""
}

// finalizers says which finalizers a write adds or removes. It returns "" if the write changes anything else.
func finalizers(w *plan.Write) string {
	was, is := w.Before.GetFinalizers(), w.After.GetFinalizers()
	same := w.After.DeepCopy()
	same.SetFinalizers(was)
	if rest, err := diff(w.Before, same); err != nil || rest != "" {
		return ""
	}
	left := func(all, other []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(other, f) })
	}
	switch added, removed := left(is, was), left(was, is); {
	case len(added) > 0:
		return "gets the finalizer " + list(added) + ", so that it is not deleted before the operator has cleaned up"
	case len(removed) > 0:
		return "loses the finalizer " + list(removed)
	}
	return ""
}

func list(all []string) string { return strings.Join(all, ", ") }
