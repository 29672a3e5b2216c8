package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// everything changes an App so that it has all children, and names a Secret and a ConfigMap.
func everything(app *v1alpha1.App) {
	app.Spec.Config = map[string]string{"mode": "fast"}
	app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"}
	app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3}
	app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
}

// atRest returns the pipeline for an App with nothing left to do. All cached objects have resource
// versions, as on an API server.
func atRest(t testing.TB, changes ...func(*v1alpha1.App)) *controller.Pipeline[*v1alpha1.App] {
	t.Helper()
	_, pipeline := worldAtRest(t, changes...)
	return pipeline
}

func worldAtRest(t testing.TB, changes ...func(*v1alpha1.App)) (*world, *controller.Pipeline[*v1alpha1.App]) {
	t.Helper()
	w := newWorld(t, example(changes...), secret("db-credentials"))
	for range 3 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		w.rollOut()
	}
	pipeline := w.fill()
	version(w.cluster.Own.Windlass().V1alpha1().Apps().Informer())
	for _, child := range ownedBy(w.cluster) {
		version(child.Informer())
	}
	return w, pipeline
}

func version(informer cache.SharedIndexInformer) {
	for _, object := range informer.GetStore().List() {
		object.(metav1.Object).SetResourceVersion("1")
	}
}

var theApp = controller.Key{Namespace: "default", Name: "web"}

func TestAPassWithNothingToDoTakesFewAllocations(t *testing.T) {
	pipeline := atRest(t)
	for range 2 {
		if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 20
	if n := testing.AllocsPerRun(100, func() { _, _ = pipeline.Sync(t.Context(), theApp) }); n > limit {
		t.Errorf("a pass with nothing to do took %.0f allocations, more than %d", n, limit)
	}
}

// TestAChildThatIsDeletedTwiceIsMadeTwice deletes a child again before the cache has observed it.
func TestAChildThatIsDeletedTwiceIsMadeTwice(t *testing.T) {
	w, pipeline := worldAtRest(t)
	if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
		t.Fatal(err)
	}
	services, before := w.cluster.Services().Informer.GetStore(), len(w.journal.Writes())
	if err := services.Replace(nil, "2"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("services"), "default", "web"); err != nil {
			t.Fatal(err)
		}
		if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "writes", []string{"create services default/web", "create services default/web"}, w.journal.Writes()[before:])
}

func TestInputsChangeWithEveryObjectThatTheSpecNames(t *testing.T) {
	w, pipeline := worldAtRest(t, everything)
	app, err := pipeline.Get(theApp)
	if err != nil {
		t.Fatal(err)
	}
	before, known := inputsOf(pipeline, app).Sum()
	controllertest.Equal(t, "the inputs are known", true, known)
	changed := secret("db-credentials")
	changed.ResourceVersion = "6"
	controllertest.Load(t, w.others().GetStore(), metadataOf(changed))
	if after, _ := inputsOf(pipeline, app).Sum(); after == before {
		t.Error("the inputs are the same although the Secret has changed")
	}
}

// TestAPassIsRepeatedWhileAChildIsMissing checks that a no-op is not remembered while a child is missing
// from the cache. Such a child can appear just in time for a reconcile, and be deleted again before the
// next one.
func TestAPassIsRepeatedWhileAChildIsMissing(t *testing.T) {
	for i, kind := range []string{"ConfigMap", "Deployment", "Service", "Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget"} {
		t.Run(kind, func(t *testing.T) {
			w, pipeline := worldAtRest(t, everything)
			app, err := pipeline.Get(theApp)
			if err != nil {
				t.Fatal(err)
			}
			known := func() bool {
				_, known := inputsOf(pipeline, app).Sum()
				return known
			}
			controllertest.Equal(t, "may be skipped with it", true, known())
			if err := ownedBy(w.cluster)[i].Informer().GetStore().Replace(nil, "2"); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "may be skipped without it", false, known())
		})
	}
}

// inputsOf returns the inputs of a reconcile of an App.
func inputsOf(pipeline *controller.Pipeline[*v1alpha1.App], app *v1alpha1.App) *controller.Versions {
	seen := controller.NewVersions()
	pipeline.Reconciler.(controller.Deterministic[*v1alpha1.App]).Inputs(app, seen)
	return seen
}

func BenchmarkAPassAtRest(b *testing.B) {
	for name, forget := range map[string]bool{"with nothing to do": false, "that compares everything": true} {
		b.Run(name, func(b *testing.B) {
			pipeline := atRest(b)
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					pipeline.Tracker.Forget(theApp)
				}
				if _, err := pipeline.Sync(b.Context(), theApp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
