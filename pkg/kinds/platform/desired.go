package platform

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

const (
	partOfLabel    = "app.kubernetes.io/part-of"
	componentLabel = "app.kubernetes.io/component"
	// needsAnnotation on a child names the components that it depends on, for the time
	// when the spec does not any more.
	needsAnnotation = "windlass.dev/depends-on"
)

// childName is the name of a component's child.
func childName(platform *v1alpha1.Platform, component string) string {
	return platform.Name + "-" + component
}

// desiredMeta is the metadata of a component's child. What makes it the Platform's is
// added by package children.
func desiredMeta(platform *v1alpha1.Platform, c *v1alpha1.PlatformComponent) metav1.ObjectMeta {
	labels := maps.Clone(platform.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[partOfLabel], labels[componentLabel] = platform.Name, string(c.Name)
	meta := metav1.ObjectMeta{Namespace: platform.Spec.Namespace, Name: childName(platform, string(c.Name)), Labels: labels}
	if len(c.DependsOn) > 0 {
		meta.Annotations = map[string]string{needsAnnotation: strings.Join(slices.Sorted(slices.Values(needsOf(c))), ",")}
	}
	return meta
}

// needsOf are the names of the components that one depends on.
func needsOf(c *v1alpha1.PlatformComponent) []string {
	names := make([]string, len(c.DependsOn))
	for i, name := range c.DependsOn {
		names[i] = string(name)
	}
	return names
}

// recordedNeeds are the names of the components that a child's component depended on when the
// child was last written.
func recordedNeeds(child metav1.Object) []string {
	names := child.GetAnnotations()[needsAnnotation]
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// desiredNamespace is the namespace of a Platform that has never had one. From then on it is
// the user's.
func desiredNamespace(platform *v1alpha1.Platform) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: platform.Spec.Namespace, Labels: map[string]string{partOfLabel: platform.Name},
	}}
}
