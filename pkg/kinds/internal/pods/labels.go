package pods

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// Labels by which a Platform marks its components. The children and Pods of a component have these labels, too.
const (
	PartOfLabel    = "app.kubernetes.io/part-of"
	ComponentLabel = "app.kubernetes.io/component"
)

// LabelsOf returns the labels of a Pod that runs a command of owner. name and instance are the values of
// app.kubernetes.io/name and app.kubernetes.io/instance.
func LabelsOf(owner metav1.Object, name, instance string) map[string]string {
	labels := map[string]string{
		"app.kubernetes.io/name":     name,
		"app.kubernetes.io/instance": instance,
		controller.ManagedByLabel:    controller.ManagedByWindlass,
	}
	CopyPlatformLabels(labels, owner)
	return labels
}

// CopyPlatformLabels copies the labels by which a Platform marks owner, an object of a component, to the labels of a
// child or Pod of owner. It reads them from the record of owner and not from the labels of owner: users can set the
// same labels there, and a tool that deletes objects by label must not find the children.
func CopyPlatformLabels(to map[string]string, owner metav1.Object) {
	set := children.Recorded(owner).GetLabels()
	for _, name := range []string{PartOfLabel, ComponentLabel} {
		if value := set[name]; value != "" {
			to[name] = value
		}
	}
}
