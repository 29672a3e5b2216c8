package app

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// FieldsToKeepPods returns the fields of the spec of an App that have to change, so that the App keeps the Pods of an
// adopted Deployment. desired is the Pod template of the App, and live that of the Deployment, both with the defaults
// of the API server. It returns an error if no fields can say the same as live.
func FieldsToKeepPods(desired, live *corev1.PodTemplateSpec) (map[string]any, error) {
	want, is := desired.DeepCopy(), live.DeepCopy()
	mine := containerIn(want)
	if mine == nil || len(is.Spec.Containers) == 0 {
		return nil, errors.New("the template has no container")
	}
	their := pods.Container(is, mine.Name)
	if their == nil {
		their = &is.Spec.Containers[0]
	}
	fields := map[string]any{}
	if their.Name != mine.Name {
		fields["containerName"], mine.Name = their.Name, their.Name
	}
	if their.Image != mine.Image {
		fields["image"], mine.Image = their.Image, their.Image
	}
	if !slices.Equal(their.Command, mine.Command) {
		fields["command"], mine.Command = their.Command, their.Command
	}
	if !slices.Equal(their.Args, mine.Args) {
		fields["args"], mine.Args = their.Args, their.Args
	}
	if account := is.Spec.ServiceAccountName; account != want.Spec.ServiceAccountName {
		fields["serviceAccountName"] = account
		want.Spec.ServiceAccountName, want.Spec.DeprecatedServiceAccount = account, account
	}
	over, err := podTemplateFor(userFields(want, mine.Name).Spec, userFields(is, mine.Name).Spec)
	if err != nil {
		return nil, err
	}
	if len(over) > 0 {
		fields["podTemplate"] = map[string]any{"spec": over}
	}
	return fields, nil
}

// podTemplateFor returns the spec of a podTemplate that, merged into want, results in is.
func podTemplateFor(want, is corev1.PodSpec) (over map[string]any, err error) {
	from, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, corev1.PodSpec{})
	if err != nil {
		return nil, err
	}
	var live map[string]any
	if err := errors.Join(json.Unmarshal(patch, &over), json.Unmarshal(to, &live)); err != nil {
		return nil, err
	}
	replaceNulls(over, live)
	patch, err = json.Marshal(over)
	if err != nil {
		return nil, err
	}
	result, err := strategicpatch.StrategicMergePatch(from, patch, corev1.PodSpec{})
	if err != nil {
		return nil, err
	}
	var got corev1.PodSpec
	if err := json.Unmarshal(result, &got); err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(got, is) {
		return nil, errors.New("podTemplate cannot say the same as the template of the Deployment")
	}
	return over, nil
}

// replaceNulls replaces each object of a patch that removes fields by the whole object of live, with the directive
// `$patch: replace`. `kubectl apply` would drop null from a manifest. replaceNulls also removes the directives that
// podTemplate does not support.
func replaceNulls(patch, live map[string]any) {
	for key, value := range patch {
		if strings.HasPrefix(key, "$setElementOrder/") || key == "$retainKeys" {
			delete(patch, key)
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			object, _ := live[key].(map[string]any)
			if slices.Contains(slices.Collect(maps.Values(value)), nil) {
				patch[key] = map[string]any{"$patch": "replace"}
				maps.Copy(patch[key].(map[string]any), object)
				continue
			}
			replaceNulls(value, object)
		case []any:
			items, _ := live[key].([]any)
			for _, item := range value {
				if item, ok := item.(map[string]any); ok {
					replaceNulls(item, named(items, item["name"]))
				}
			}
		}
	}
}

// named returns the item of a list that has a name, or nil.
func named(items []any, name any) map[string]any {
	for _, item := range items {
		if item, ok := item.(map[string]any); ok && item["name"] == name {
			return item
		}
	}
	return nil
}
