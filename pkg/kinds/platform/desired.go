package platform

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

const (
	// needsAnnotation on a child has the dependencies of its component. With it, the operator removes
	// components in order even if the spec no longer lists them or their dependencies.
	needsAnnotation = "windlass.dev/depends-on"
)

// childName returns the name of a component's child.
func childName(platform *v1alpha1.Platform, component string) string {
	return platform.Name + "-" + component
}

// desiredMeta returns the metadata of a component's child. Package children adds the owner reference and the managed-by
// label. The child has no label or annotation of the Platform: a pruning tool deletes each object that has the label of
// the tool and is not in its configuration.
func desiredMeta(platform *v1alpha1.Platform, c *v1alpha1.PlatformComponent) metav1.ObjectMeta {
	labels := map[string]string{pods.PartOfLabel: platform.Name, pods.ComponentLabel: string(c.Name)}
	meta := metav1.ObjectMeta{
		Namespace: platform.Spec.Namespace, Name: childName(platform, string(c.Name)), Labels: labels,
	}
	if len(c.DependsOn) > 0 {
		meta.Annotations = map[string]string{needsAnnotation: strings.Join(slices.Sorted(slices.Values(needsOf(c))), ",")}
	}
	return meta
}

// needsOf returns the names of the components that c depends on.
func needsOf(c *v1alpha1.PlatformComponent) []string {
	names := make([]string, len(c.DependsOn))
	for i, name := range c.DependsOn {
		names[i] = string(name)
	}
	return names
}

// recordedNeeds returns the names of the components that a child's component depended on when the child
// was last written.
func recordedNeeds(child metav1.Object) []string {
	names := child.GetAnnotations()[needsAnnotation]
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// desiredNamespace returns the namespace of a Platform that has never had one. The operator does not
// change it after its creation.
func desiredNamespace(platform *v1alpha1.Platform) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: platform.Spec.Namespace, Labels: map[string]string{pods.PartOfLabel: platform.Name},
	}}
}
