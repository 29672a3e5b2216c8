package framework

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// Indexes of the components in the spec that EverythingOfPlatform returns.
const (
	WebComponent = iota
	DatabaseComponent
	OutsideComponent
	TaskComponent
)

// EverythingOfPlatform returns a spec that uses every field of Platform, with a component of
// each kind.
func EverythingOfPlatform() v1alpha1.PlatformSpec {
	app, db, outside := EverythingOfApp(), EverythingOfDatabase(), EverythingOfExternalDatabase()
	return v1alpha1.PlatformSpec{Namespace: "later", Components: []v1alpha1.PlatformComponent{
		WebComponent:      {Name: "web", DependsOn: []v1alpha1.ComponentName{"db", "outside"}, App: &app},
		DatabaseComponent: {Name: "db", Database: &db},
		OutsideComponent:  {Name: "outside", DependsOn: []v1alpha1.ComponentName{"db"}, ExternalDatabase: &outside},
		TaskComponent: {Name: "task", DependsOn: []v1alpha1.ComponentName{"web"}, At: &cnatv1.AtSpec{
			Schedule: "2020-01-01T00:00:00Z", Command: []string{"sh", "-c", "true"},
			PodTemplate: &cnatv1.PodTemplate{
				Metadata: cnatv1.PodTemplateMetadata{Labels: map[string]string{"team": "shop"}},
				Spec:     &runtime.RawExtension{Raw: []byte(`{"tolerations":[{"key":"batch","operator":"Exists"}]}`)},
			},
		}},
	}}
}

// CreatePlatform creates a Platform, and deletes it when the test ends.
func (w *Clients) CreatePlatform(t *testing.T, name string, spec v1alpha1.PlatformSpec) *v1alpha1.Platform {
	t.Helper()
	platform := &v1alpha1.Platform{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "storefront"}}, Spec: spec,
	}
	platforms := w.Windlass.WindlassV1alpha1().Platforms()
	platform, err := platforms.Create(t.Context(), platform, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating Platform %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := platforms.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Errorf("deleting Platform %s: %v", name, err)
		}
	})
	return platform
}

// UpdatePlatform changes a Platform, and returns the updated object.
func (w *Clients) UpdatePlatform(t *testing.T, name string, change func(*v1alpha1.Platform)) *v1alpha1.Platform {
	t.Helper()
	return update(t, w.Windlass.WindlassV1alpha1().Platforms(), name, change)
}

// PlatformWith waits until the status of a Platform reflects its newest generation, and wanted returns true. It returns
// the Platform. what describes the wanted state in the message of a failure.
func (w *Clients) PlatformWith(
	t *testing.T, name, what string, wanted func(*v1alpha1.Platform) bool,
) *v1alpha1.Platform {
	t.Helper()
	return with(t, w.Windlass.WindlassV1alpha1().Platforms(), name, what, wanted)
}

// PlatformIn waits until a Platform has the given phase for its newest generation.
func (w *Clients) PlatformIn(t *testing.T, name string, phase v1alpha1.PlatformPhase) *v1alpha1.Platform {
	t.Helper()
	return w.PlatformWith(t, name, string(phase), func(p *v1alpha1.Platform) bool { return p.Status.Phase == phase })
}

// PlatformReason waits until the condition Ready of a Platform has the given reason for the newest generation.
func (w *Clients) PlatformReason(t *testing.T, name, reason string) *v1alpha1.Platform {
	t.Helper()
	return w.PlatformWith(t, name, reason, readyFor[*v1alpha1.Platform](reason))
}
