package children_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// mutating is a client of an API server whose admission plugins change each Deployment that is written.
type mutating struct {
	children.Client[*appsv1.Deployment]
	dock   *dock
	mutate func(*appsv1.Deployment)
}

func (m mutating) Create(
	ctx context.Context, d *appsv1.Deployment, opts metav1.CreateOptions,
) (*appsv1.Deployment, error) {
	d = d.DeepCopy()
	d.UID, d.ResourceVersion = "child-uid", "7"
	m.mutate(d)
	return m.Client.Create(ctx, d, opts)
}

func (m mutating) Patch(
	ctx context.Context, name string, kind types.PatchType, patch []byte, opts metav1.PatchOptions, sub ...string,
) (*appsv1.Deployment, error) {
	patched, err := m.Client.Patch(ctx, name, kind, patch, opts, sub...)
	if err != nil {
		return nil, err
	}
	patched = patched.DeepCopy()
	m.mutate(patched)
	return patched, m.dock.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), patched,
		patched.Namespace)
}

// ensure calls Ensure with a cache that holds the stored Deployment, and returns the number of writes.
func (d *dock) ensure(t *testing.T, want *appsv1.Deployment) int {
	t.Helper()
	before := len(d.journal.Writes())
	if live := d.live(t); live != nil {
		controllertest.Load(t, d.cache, live)
	}
	if _, err := d.Ensure(t.Context(), owner(), want, nil); err != nil {
		t.Fatal(err)
	}
	return len(d.journal.Writes()) - before
}

func TestEnsureWritesOnceWhatAdmissionChanges(t *testing.T) {
	for name, mutate := range map[string]func(*appsv1.Deployment){
		"an image":                   image("mirror/wood:1"),
		"a variable that is lost":    without("SAIL"),
		"a label":                    func(d *appsv1.Deployment) { d.Labels["crew"] = "five" },
		"a label that is lost":       func(d *appsv1.Deployment) { delete(d.Labels, "crew") },
		"an annotation that is lost": func(d *appsv1.Deployment) { delete(d.Annotations, children.RecordAnnotation) },
	} {
		for kind, isCustom := range map[string]bool{"built-in": false, "custom": true} {
			t.Run(name+" of a "+kind+" type", func(t *testing.T) {
				d := newDock(t, nil, nil)
				d.Custom = isCustom
				d.Client = func(ns string) children.Client[*appsv1.Deployment] {
					return mutating{d.kube.AppsV1().Deployments(ns), d, mutate}
				}
				controllertest.Equal(t, "writes for the creation", 1, d.ensure(t, want()))
				for range 3 {
					controllertest.Equal(t, "writes at rest", 0, d.ensure(t, want()))
				}
				again := want(func(w *appsv1.Deployment) { w.Spec.Paused = true })
				controllertest.Equal(t, "writes for another desired state", 1, d.ensure(t, again))
				controllertest.Equal(t, "writes after it", 0, d.ensure(t, again))
				controllertest.Equal(t, "written value", true, d.live(t).Spec.Paused)
				drifted := d.live(t)
				image("iron:1")(drifted)
				err := d.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), drifted, "port")
				if err != nil {
					t.Fatal(err)
				}
				controllertest.Equal(t, "writes for a change by others", 1, d.ensure(t, again))
				controllertest.Equal(t, "writes after that", 0, d.ensure(t, again))
				if is := d.live(t).Spec.Template.Spec.Containers[0].Image; is == "iron:1" {
					t.Error("the change by others stays")
				}
			})
		}
	}
}

func TestEnsureWritesAgainWhenAdmissionStops(t *testing.T) {
	d, mutate := newDock(t, nil, nil), image("mirror/wood:1")
	d.Client = func(ns string) children.Client[*appsv1.Deployment] {
		return mutating{d.kube.AppsV1().Deployments(ns), d, func(live *appsv1.Deployment) { mutate(live) }}
	}
	d.ensure(t, want())
	mutate = func(*appsv1.Deployment) {}
	controllertest.Equal(t, "writes at rest", 0, d.ensure(t, want()))
	scaled := want(func(w *appsv1.Deployment) { w.Spec.Paused = true })
	controllertest.Equal(t, "writes for another desired state", 1, d.ensure(t, scaled))
	controllertest.Equal(t, "image", "wood:1", d.live(t).Spec.Template.Spec.Containers[0].Image)
	drifted := d.live(t)
	image("mirror/wood:1")(drifted)
	if err := d.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), drifted, "port"); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes for a change by others to the previous value", 1, d.ensure(t, scaled))
}
