package app

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
)

// FieldsToKeepPods returns the fields to add to the spec of an App, so that the App keeps the Pods of an adopted
// Deployment. desired is the Pod template of the App, and live that of the Deployment, both with the defaults of the
// API server. podTemplate in the result is relative to the podTemplate that the App has. FieldsToKeepPods returns an
// error if no fields can say the same as live, or if the App replaces the Pods in any case: see keepsPods.
func FieldsToKeepPods(spec *v1alpha1.AppSpec, desired, live *corev1.PodTemplateSpec) (map[string]any, error) {
	if spec.BeforeRollout != nil || spec.DatabaseRef != nil {
		return nil, errors.New("the App always replaces the Pods")
	}
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
	ports := portsIn(their, portsOf(&v1alpha1.App{Spec: *spec}))
	if !slices.Equal(their.Ports, mine.Ports) && ports != nil {
		fields["ports"] = ports
		renamePorts(mine, their.Ports)
	}
	if account := is.Spec.ServiceAccountName; account != want.Spec.ServiceAccountName {
		fields["serviceAccountName"] = account
		want.Spec.ServiceAccountName, want.Spec.DeprecatedServiceAccount = account, account
	}
	over, err := podTemplateFor(userFields(want, mine.Name), userFields(is, mine.Name))
	if err != nil {
		return nil, err
	}
	if len(over) == 0 {
		return fields, nil
	}
	fields["podTemplate"] = map[string]any{"spec": over}
	raw, err := json.Marshal(over)
	if err != nil {
		return nil, err
	}
	added := &cnatv1.PodTemplate{Spec: &runtime.RawExtension{Raw: raw}}
	_, err = podtemplate.Merge(want, added, rulesOf(mine.Name))
	return fields, err
}

// portsIn returns the field ports of an App whose container has the ports of c. own are the present ports of the App. A
// port of c with the number and protocol of one of them keeps its other fields. portsIn returns nil if a port has no
// name.
func portsIn(c *corev1.Container, own []v1alpha1.AppPort) (ports []v1alpha1.AppPort) {
	for _, p := range c.Ports {
		if p.Name == "" {
			return nil
		}
		port := v1alpha1.AppPort{Port: p.ContainerPort, Protocol: p.Protocol}
		same := func(o v1alpha1.AppPort) bool { return o.Port == port.Port && o.Protocol == port.Protocol }
		if i := slices.IndexFunc(own, same); i >= 0 {
			port = own[i]
		}
		port.Name = p.Name
		ports = append(ports, port)
	}
	return ports
}

// renamePorts gives a generated container other ports. Its probes then use the new name of a port.
func renamePorts(c *corev1.Container, ports []corev1.ContainerPort) {
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		for i := range min(len(ports), len(c.Ports)) {
			is, next := intstr.FromString(c.Ports[i].Name), intstr.FromString(ports[i].Name)
			if probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port == is {
				probe.HTTPGet.Port = next
			}
			if probe != nil && probe.TCPSocket != nil && probe.TCPSocket.Port == is {
				probe.TCPSocket.Port = next
			}
		}
	}
	c.Ports = ports
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
	if strings.Contains(string(patch), ":null") {
		return nil, errors.New("podTemplate cannot remove the field of a list item")
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
