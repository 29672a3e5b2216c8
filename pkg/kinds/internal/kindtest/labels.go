package kindtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// tracking are labels by which tools recognise the objects that they have applied, and labels of users.
var tracking = map[string]string{
	"applyset.kubernetes.io/part-of": "applyset-storefront-v1", "objectset.rio.cattle.io/hash": "storefront",
	"kapp.k14s.io/app":            "1700000000",
	"argocd.argoproj.io/instance": "storefront", "kustomize.toolkit.fluxcd.io/name": "storefront", "kro.run/owned": "true",
	"app.kubernetes.io/instance": "storefront", "team": "storefront",
	pods.PartOfLabel: "storefront", pods.ComponentLabel: "storefront",
}

// Track gives an object labels and annotations by which tools recognise the objects that they have applied.
func Track(object metav1.Object) {
	object.SetLabels(maps.Clone(tracking))
	annotations := maps.Clone(tracking)
	maps.Copy(annotations, object.GetAnnotations())
	object.SetAnnotations(annotations)
}

// Tracked returns the labels and annotations of Track that other stored objects than the object of the Fixture have.
func (f *Fixture[T]) Tracked() (found []string) {
	f.T.Helper()
	for what, object := range f.others() {
		for key, value := range tracking {
			if object.GetLabels()[key] == value || object.GetAnnotations()[key] == value {
				found = append(found, what+": "+key)
			}
		}
	}
	return found
}

// Without returns the owned objects, and the claims that outlive the object of the Fixture, that do not have the labels
// and annotations.
func (f *Fixture[T]) Without(wanted v1alpha1.ChildMetadata) (found []string) {
	f.T.Helper()
	wantedLabels, wantedAnnotations := wanted.Maps()
	for what, object := range f.others() {
		owned := metav1.IsControlledBy(object, f.Object()) || object.GetAnnotations()[children.MadeForAnnotation] != ""
		has := labels.SelectorFromSet(wantedLabels).Matches(labels.Set(object.GetLabels())) &&
			labels.SelectorFromSet(wantedAnnotations).Matches(labels.Set(object.GetAnnotations()))
		if owned && !has {
			found = append(found, what)
		}
	}
	return found
}

// others returns the stored objects other than the object of the Fixture, by their types and names.
func (f *Fixture[T]) others() map[string]metav1.Object {
	f.T.Helper()
	found := map[string]metav1.Object{}
	for _, kind := range slices.Concat(builtIn, own) {
		for _, object := range f.list(kind) {
			accessor, err := meta.Accessor(object)
			if err != nil {
				f.T.Fatal(err)
			}
			if accessor.GetUID() != f.Object().GetUID() {
				found[fmt.Sprintf("%T %s", object, accessor.GetName())] = accessor
			}
		}
	}
	return found
}

// OfChildren are labels and annotations for all children.
var OfChildren = v1alpha1.ChildMetadata{
	Labels:      map[string]v1alpha1.LabelValue{"cost-centre": "4711"},
	Annotations: map[string]v1alpha1.AnnotationValue{"example.com/owner": "storefront"},
}

// MakeComponent gives an object the labels and the record that a Platform gives to the object of a component.
func MakeComponent(object metav1.Object, platform, component string) {
	labels := map[string]string{pods.PartOfLabel: platform, pods.ComponentLabel: component}
	// Marshaling strings cannot fail.
	record, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	object.SetLabels(labels)
	object.SetAnnotations(map[string]string{children.RecordAnnotation: string(record)})
}
