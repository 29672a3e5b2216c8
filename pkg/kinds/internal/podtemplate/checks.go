package podtemplate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"windlass.dev/windlass/pkg/apis/cnat"
	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// maxBytes limits a podTemplate as JSON. Package children records no larger Pod template, so that an upgrade of the
	// operator could replace the Pods.
	maxBytes = 32 << 10
	// maxItems limits each list of a podTemplate. The time of a strategic merge grows with the square of this number: 256
	// items take some milliseconds, and 30,000 items take minutes.
	maxItems = 256
	// maxDepth limits how many objects and lists a podTemplate has within each other. No Pod has as many.
	maxDepth = 32
)

// checkPatch returns an error if a podTemplate, or a value in it at a path, exceeds a limit, or has a directive of a
// strategic merge other than $patch. The result of other directives can depend on the order of the fields, which is
// random: then each reconcile would replace the Pods.
func checkPatch(path string, value any, depth int) error {
	if depth > maxDepth {
		return errors.New("spec.podTemplate has too many objects within each other")
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if strings.HasPrefix(key, "$") && key != directive {
				return fmt.Errorf("%s must not have %s; the only supported directive is %s", path, key, directive)
			}
			if key == directive && value[key] != replaceObject && value[key] != deleteObject {
				return fmt.Errorf("%s.%s must be %s or %s", path, key, replaceObject, deleteObject)
			}
			if err := checkPatch(path+"."+key, value[key], depth+1); err != nil {
				return err
			}
		}
	case []any:
		if len(value) > maxItems {
			return fmt.Errorf("%s has %d items; it must have at most %d", path, len(value), maxItems)
		}
		for i, item := range value {
			if err := checkPatch(fmt.Sprintf("%s[%d]", path, i), item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMetadata returns an error if over sets or could remove a label or annotation of the operator.
func checkMetadata(generated *corev1.PodTemplateSpec, over *cnatv1.PodTemplate) error {
	check := func(field string, over, generated map[string]string) error {
		for _, key := range slices.Sorted(maps.Keys(over)) {
			if key == directive { // it could remove the labels of the operator
				return fmt.Errorf("spec.podTemplate.metadata.%s must not have %s", field, key)
			}
			domain, _, _ := strings.Cut(key, "/")
			_, taken := generated[key]
			if taken || domain == controller.AnnotationDomain || domain == cnat.GroupName {
				return fmt.Errorf("spec.podTemplate.metadata.%s[%s] is reserved for the operator", field, key)
			}
		}
		return nil
	}
	if err := check("labels", over.Metadata.Labels, generated.Labels); err != nil {
		return err
	}
	return check("annotations", over.Metadata.Annotations, generated.Annotations)
}

// Rules are the fields of a generated Pod template that a podTemplate must not change.
type Rules struct {
	// Container is the name of the generated container.
	Container string
	// InSpec are the fields of the container that have a field of the same name in the spec.
	InSpec []Field[corev1.Container]
	// Fixed are other fields of the container that the operator needs as they are.
	Fixed []Field[corev1.Container]
	// Environment is true if the operator needs the generated variables of the container as they are.
	Environment bool
	// PodInSpec are the fields of the Pod that have a field of the same name in the spec.
	PodInSpec []Field[corev1.PodSpec]
	// PodFixed are other fields of the Pod that the operator needs as they are.
	PodFixed []Field[corev1.PodSpec]
	// Once is true if the container must not run twice.
	Once bool
}

// Field is a field of a container or of a Pod.
type Field[T any] struct {
	name  string
	value func(*T) any
}

// Fields of a container.
var (
	Image          = Field[corev1.Container]{"image", func(c *corev1.Container) any { return c.Image }}
	Command        = Field[corev1.Container]{"command", func(c *corev1.Container) any { return c.Command }}
	Args           = Field[corev1.Container]{"args", func(c *corev1.Container) any { return c.Args }}
	Resources      = Field[corev1.Container]{"resources", func(c *corev1.Container) any { return c.Resources }}
	StartupProbe   = Field[corev1.Container]{"startupProbe", func(c *corev1.Container) any { return c.StartupProbe }}
	ReadinessProbe = Field[corev1.Container]{"readinessProbe", func(c *corev1.Container) any { return c.ReadinessProbe }}
	LivenessProbe  = Field[corev1.Container]{"livenessProbe", func(c *corev1.Container) any { return c.LivenessProbe }}
	Lifecycle      = Field[corev1.Container]{"lifecycle", func(c *corev1.Container) any { return c.Lifecycle }}
	// RestartOfContainer is restartPolicy of a container, which replaces RestartPolicy for this container.
	RestartOfContainer = Field[corev1.Container]{"restartPolicy", func(c *corev1.Container) any { return c.RestartPolicy }}
)

// Fields of a Pod.
var (
	RestartPolicy         = Field[corev1.PodSpec]{"restartPolicy", func(p *corev1.PodSpec) any { return p.RestartPolicy }}
	ActiveDeadlineSeconds = Field[corev1.PodSpec]{
		"activeDeadlineSeconds", func(p *corev1.PodSpec) any { return p.ActiveDeadlineSeconds },
	}
	ServiceAccountName = Field[corev1.PodSpec]{"serviceAccountName", func(p *corev1.PodSpec) any {
		return []string{p.ServiceAccountName, p.DeprecatedServiceAccount}
	}}
)

// changed returns the name of the first field of fields that differs between was and is, or "".
func changed[T any](fields []Field[T], was, is *T) string {
	for _, f := range fields {
		if !equality.Semantic.DeepEqual(f.value(was), f.value(is)) {
			return f.name
		}
	}
	return ""
}

// check returns an error if merged lacks something in the generated template that the operator relies on, or has a
// generated container with two actions in a probe or hook.
func (r Rules) check(generated, merged *corev1.PodTemplateSpec) error {
	const pod = "spec.podTemplate.spec"
	path := fmt.Sprintf("%s.containers[name=%s]", pod, r.Container)
	was, is := pods.Container(generated, r.Container), pods.Container(merged, r.Container)
	if was == nil || is == nil {
		return fmt.Errorf("%s must not be deleted", path)
	}
	err := cmp.Or(
		setInSpec(path, changed(r.InSpec, was, is)),
		setInSpec(pod, changed(r.PodInSpec, &generated.Spec, &merged.Spec)),
	)
	if err != nil {
		return err
	}
	needed := []struct{ format, parent, name string }{
		{"%s.%s", pod, changed(r.PodFixed, &generated.Spec, &merged.Spec)},
		{"%s.%s", path, changed(r.Fixed, was, is)},
		{"%s.ports[name=%s]", path, firstMissing(was.Ports, is.Ports, nameOfPort)},
		{"%s.volumeMounts[name=%s]", path, firstMissing(was.VolumeMounts, is.VolumeMounts, nameOfMount)},
		{"%s.volumes[name=%s]", pod, firstMissing(generated.Spec.Volumes, merged.Spec.Volumes, nameOfVolume)},
	}
	if r.Environment {
		missing := firstMissing(was.Env, is.Env, nameOfVariable)
		needed = append(needed, struct{ format, parent, name string }{"%s.env[name=%s]", path, missing})
	}
	for _, n := range needed {
		if n.name != "" {
			return fmt.Errorf(n.format+" must not be changed, because the operator needs it", n.parent, n.name)
		}
	}
	if r.Once {
		err = checkRestartRules(&merged.Spec)
	}
	return cmp.Or(err, checkPortNames(was, &merged.Spec), checkActions(path, is))
}

// setInSpec returns the error of a changed field that has a field of the same name in the spec, or nil if field is "".
func setInSpec(path, field string) error {
	if field == "" {
		return nil
	}
	return fmt.Errorf("%s.%s must not be set: set %s in the spec instead", path, field, field)
}

// checkRestartRules returns an error if the exit of a container can restart all containers of the Pod.
func checkRestartRules(merged *corev1.PodSpec) error {
	const all = corev1.ContainerRestartRuleActionRestartAllContainers
	for _, c := range slices.Concat(merged.InitContainers, merged.Containers) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return r.Action == all }) {
			return fmt.Errorf("container %s in spec.podTemplate must not have a rule with the action %s, because the command "+
				"would run again", c.Name, all)
		}
	}
	return nil
}

// checkPortNames returns an error if another container has a port with the name of a port of the generated container.
// The Service would send requests to the first container with such a port.
func checkPortNames(own *corev1.Container, merged *corev1.PodSpec) error {
	for _, c := range slices.Concat(merged.InitContainers, merged.Containers) {
		for _, port := range c.Ports {
			taken := slices.ContainsFunc(own.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Name })
			if taken && c.Name != own.Name {
				return fmt.Errorf("port %s of container %s in spec.podTemplate needs another name, because the Service sends "+
					"requests to this name", port.Name, c.Name)
			}
		}
	}
	return nil
}

func nameOfPort(p corev1.ContainerPort) string { return p.Name }

func nameOfMount(m corev1.VolumeMount) string { return m.Name }

func nameOfVariable(v corev1.EnvVar) string { return v.Name }

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

// checkActions returns an error if the generated container at a path has a probe or hook with more than one action,
// because podTemplate has added an action to the generated action.
func checkActions(path string, c *corev1.Container) error {
	handlers := map[string]any{}
	for field, probe := range map[string]*corev1.Probe{
		"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe,
	} {
		if probe != nil {
			handlers[field] = probe.ProbeHandler
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		handlers["lifecycle.preStop"] = *c.Lifecycle.PreStop
	}
	for _, field := range slices.Sorted(maps.Keys(handlers)) {
		if actions := actionsOf(handlers[field]); len(actions) > 1 {
			return fmt.Errorf("%s.%s has the actions %s; to replace the generated action, add `$patch: replace` beside the "+
				"new action", path, field, strings.Join(actions, " and "))
		}
	}
	return nil
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
