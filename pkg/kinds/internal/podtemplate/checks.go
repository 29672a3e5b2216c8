package podtemplate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	// maxBytes limits a podTemplate as JSON.
	maxBytes = 64 << 10
	// maxItems limits each list of a podTemplate. The time of a strategic merge grows with the square of this number: 256
	// items take some milliseconds, and 30,000 items take minutes.
	maxItems = 256
)

// checkSize returns an error if a podTemplate as JSON exceeds a limit.
func checkSize(text []byte) error {
	if len(text) > maxBytes {
		return fmt.Errorf("podTemplate has %d bytes, and may have %d", len(text), maxBytes)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return fmt.Errorf("podTemplate cannot be decoded: %w", err)
	}
	return checkLists("podTemplate", value)
}

// checkLists returns an error if a JSON value at a path has a list with more than maxItems.
func checkLists(path string, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := checkLists(path+"."+key, value[key]); err != nil {
				return err
			}
		}
	case []any:
		if len(value) > maxItems {
			return fmt.Errorf("%s has %d items, and may have %d", path, len(value), maxItems)
		}
		for i, item := range value {
			if err := checkLists(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMetadata returns an error if over sets a label or annotation of the operator.
func checkMetadata(generated *corev1.PodTemplateSpec, over *v1alpha1.PodTemplate) error {
	check := func(field string, over, generated map[string]string) error {
		for _, key := range slices.Sorted(maps.Keys(over)) {
			if _, reserved := generated[key]; reserved || strings.HasPrefix(key, controller.AnnotationDomain+"/") {
				return fmt.Errorf("podTemplate.metadata.%s[%s] is reserved for the operator", field, key)
			}
		}
		return nil
	}
	if err := check("labels", over.Metadata.Labels, generated.Labels); err != nil {
		return err
	}
	return check("annotations", over.Metadata.Annotations, generated.Annotations)
}

// checkPod returns an error if merged lacks something in the generated Pod that the operator relies on.
func checkPod(generated, merged *corev1.PodSpec, own string) error {
	named := func(c corev1.Container) bool { return c.Name == own }
	before, after := slices.IndexFunc(generated.Containers, named), slices.IndexFunc(merged.Containers, named)
	path := fmt.Sprintf("podTemplate.spec.containers[name=%s]", own)
	if before < 0 || after < 0 {
		return fmt.Errorf("%s must not be deleted", path)
	}
	was, is := &generated.Containers[before], &merged.Containers[after]
	for _, c := range []struct {
		path, field string
		same        bool
	}{
		{path, "image", was.Image == is.Image}, {path, "command", slices.Equal(was.Command, is.Command)},
		{path, "args", slices.Equal(was.Args, is.Args)},
		{"podTemplate.spec", "serviceAccountName", generated.ServiceAccountName == merged.ServiceAccountName &&
			generated.DeprecatedServiceAccount == merged.DeprecatedServiceAccount},
	} {
		if !c.same {
			return fmt.Errorf("%s.%s must not be set: set %s in the spec instead", c.path, c.field, c.field)
		}
	}
	for _, c := range []struct{ list, name string }{
		{path + ".ports", firstMissing(was.Ports, is.Ports, func(p corev1.ContainerPort) string { return p.Name })},
		{path + ".volumeMounts", firstMissing(was.VolumeMounts, is.VolumeMounts, nameOfMount)},
		{"podTemplate.spec.volumes", firstMissing(generated.Volumes, merged.Volumes, nameOfVolume)},
	} {
		if c.name != "" {
			return fmt.Errorf("%s[name=%s] must not be changed, because the operator needs it", c.list, c.name)
		}
	}
	return nil
}

func nameOfMount(m corev1.VolumeMount) string { return m.Name }

func nameOfVolume(v corev1.Volume) string { return v.Name }

// firstMissing returns the name of the first item of was that is not in is, or "".
func firstMissing[T any](was, is []T, nameOf func(T) string) string {
	for _, item := range was {
		if !slices.ContainsFunc(is, func(other T) bool { return equality.Semantic.DeepEqual(item, other) }) {
			return nameOf(item)
		}
	}
	return ""
}

// checkHandlers returns an error if a probe or hook of the generated container has more than one action, because
// podTemplate has added an action to the generated action.
func checkHandlers(merged *corev1.PodSpec, own string) error {
	c := merged.Containers[slices.IndexFunc(merged.Containers, func(c corev1.Container) bool { return c.Name == own })]
	check := func(field string, handler any) error {
		if actions := actionsOf(handler); len(actions) > 1 {
			return fmt.Errorf("podTemplate.spec.containers[name=%s].%s has the actions %s; to replace the generated action, "+
				"add `$patch: replace` beside the new one", own, field, strings.Join(actions, " and "))
		}
		return nil
	}
	for _, p := range []struct {
		field string
		probe *corev1.Probe
	}{
		{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe},
	} {
		if p.probe == nil {
			continue
		}
		if err := check(p.field, p.probe.ProbeHandler); err != nil {
			return err
		}
	}
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return nil
	}
	return check("lifecycle.preStop", *c.Lifecycle.PreStop)
}

// actionsOf returns the JSON names of the fields of a handler that are set. All fields are pointers.
func actionsOf(handler any) (names []string) {
	v := reflect.ValueOf(handler)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
