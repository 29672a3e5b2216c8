//go:build integration

package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// TestKeysOfPruningToolsAreRejected tries labels and annotations of all children with which Kubernetes or a GitOps tool
// would take the children for its own.
func TestKeysOfPruningToolsAreRejected(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	create := func(metadata v1alpha1.ChildMetadata) error {
		app := &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.AppSpec{
			Image: "shop:1", Metadata: metadata,
		}}
		_, err := shared.Windlass.WindlassV1alpha1().Apps(namespace).Create(t.Context(), app,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for key, want := range map[string]string{
		"applyset.kubernetes.io/part-of":          "are reserved",
		"app.kubernetes.io/instance":              "are reserved",
		"app.kubernetes.io/managed-by":            "are reserved",
		"kubernetes.io/ingress.class":             "are reserved",
		"cli-utils.sigs.k8s.io/inventory-id":      "are reserved",
		"config.k8s.io/owning-inventory":          "are reserved",
		"argocd.argoproj.io/instance":             "are reserved",
		"kustomize.toolkit.fluxcd.io/name":        "are reserved",
		"resourceset.fluxcd.controlplane.io/name": "are reserved",
		"kapp.k14s.io/app":                        "are reserved",
		"objectset.rio.cattle.io/hash":            "are reserved",
		"meta.helm.sh/release-name":               "are reserved",
		"kro.run/owned":                           "are reserved",
		"skaffold.dev/run-id":                     "are reserved",
		"windlass.dev/made-for":                   "are reserved",
		"sub.windlass.dev/made-for":               "are reserved",
		"Example.com/team":                        "each key must be",
		"team/":                                   "each key must be",
		"":                                        "each key must be",
		"a b":                                     "each key must be",
		strings.Repeat("a", 64):                   "each key must be",
		strings.Repeat("a.", 127) + "a/team":      "each key must be",
		"team":                                    "",
		"velero.io/exclude-from-backup":           "",
		"kueue.x-k8s.io/queue-name":               "",
	} {
		errs := map[string]error{
			"label":      create(v1alpha1.ChildMetadata{Labels: map[string]v1alpha1.LabelValue{key: "a"}}),
			"annotation": create(v1alpha1.ChildMetadata{Annotations: map[string]v1alpha1.AnnotationValue{key: "a"}}),
		}
		for what, err := range errs {
			if want == "" && err != nil {
				t.Errorf("the %s %q: %v", what, key, err)
			}
			if want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want)) {
				t.Errorf("the %s %q: got the error %v, want %q", what, key, err, want)
			}
		}
	}
	const version = "app.kubernetes.io/version"
	if err := create(v1alpha1.ChildMetadata{Labels: map[string]v1alpha1.LabelValue{version: "1.4"}}); err != nil {
		t.Errorf("the label %s: %v", version, err)
	}
	for _, value := range []v1alpha1.LabelValue{"a b", "-a", "a/b", v1alpha1.LabelValue(strings.Repeat("a", 64))} {
		err := create(v1alpha1.ChildMetadata{Labels: map[string]v1alpha1.LabelValue{"team": value}})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.metadata.labels.team") {
			t.Errorf("the label team with the value %q: %v", value, err)
		}
	}
}
