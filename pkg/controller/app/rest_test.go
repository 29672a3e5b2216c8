package app

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
	"windlass.dev/windlass/pkg/controller/internal/controllertest"
)

// everything is an App that has all children and names a Secret and a ConfigMap.
func everything(app *v1alpha1.App) {
	app.Spec.Config = map[string]string{"mode": "fast"}
	app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"}
	app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3}
	app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
}

// atRest returns what does a pass for an App with nothing left to do, of which all objects
// have versions, as those of an API server do.
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
	for _, informer := range append(childInformers(w.in.Kube), w.in.Windlass.Windlass().V1alpha1().Apps().Informer()) {
		version(informer)
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
	const limit = 10
	if n := testing.AllocsPerRun(100, func() { _, _ = pipeline.Sync(t.Context(), theApp) }); n > limit {
		t.Errorf("a pass with nothing to do took %.0f allocations, more than %d", n, limit)
	}
}

// TestAChildThatIsDeletedTwiceIsMadeTwice is of one that is gone again before the cache has it.
func TestAChildThatIsDeletedTwiceIsMadeTwice(t *testing.T) {
	w, pipeline := worldAtRest(t)
	if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
		t.Fatal(err)
	}
	services, before := w.in.Kube.Core().V1().Services().Informer().GetStore(), len(w.journal.Writes())
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

// TestAPassReadsNothingBesidesItsInputs keeps Inputs complete: what a pass read besides
// could change without another pass.
func TestAPassReadsNothingBesidesItsInputs(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.App){
		"of an App with everything": everything,
		"of an App with nothing":    func(*v1alpha1.App) {},
	} {
		t.Run(name, func(t *testing.T) {
			pipeline := atRest(t, change)
			r, read := pipeline.Reconciler.(*reconciler), map[string]bool{}
			watched(&r.configMaps, read)
			watched(&r.deployments, read)
			watched(&r.services, read)
			watched(&r.ingresses, read)
			watched(&r.autoscalers, read)
			watched(&r.budgets, read)
			known := r.known
			r.known = func(ref reference, namespace string) (controller.Versioned, error) {
				read[ref.String()] = true
				return known(ref, namespace)
			}
			app, err := pipeline.Get(theApp)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Reconcile(t.Context(), app.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			byPass := slices.Sorted(maps.Keys(read))
			clear(read)
			r.Inputs(app, controller.NewVersions())
			controllertest.Equal(t, "inputs", byPass, slices.Sorted(maps.Keys(read)))
		})
	}
}

// TestAPassIsRepeatedWhileAChildIsMissing is of a child that comes just in time for a pass, as
// that of a write whose answer was lost, and is gone again before the next.
func TestAPassIsRepeatedWhileAChildIsMissing(t *testing.T) {
	for i, kind := range []string{"ConfigMap", "Deployment", "Service", "Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget"} {
		t.Run(kind, func(t *testing.T) {
			w, pipeline := worldAtRest(t, everything)
			app, err := pipeline.Get(theApp)
			if err != nil {
				t.Fatal(err)
			}
			known := func() bool {
				seen := controller.NewVersions()
				pipeline.Reconciler.(*reconciler).Inputs(app, seen)
				_, known := seen.Sum()
				return known
			}
			controllertest.Equal(t, "may be skipped with it", true, known())
			if err := childInformers(w.in.Kube)[i].GetStore().Replace(nil, "2"); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "may be skipped without it", false, known())
		})
	}
}

// noting notes what is read of a cache.
type noting[T children.Object] struct {
	children.Cache[T]
	kind string
	read map[string]bool
}

func watched[T children.Object](all *children.Type[T], read map[string]bool) {
	all.Cache = noting[T]{all.Cache, all.Kind, read}
}

func (n noting[T]) Get(namespace, name string) (T, error) {
	n.read[n.kind+"/"+name] = true
	return n.Cache.Get(namespace, name)
}

func (n noting[T]) Version(namespace, name string) (controller.Versioned, error) {
	n.read[n.kind+"/"+name] = true
	return n.Cache.Version(namespace, name)
}

func BenchmarkAPassAtRest(b *testing.B) {
	for name, forget := range map[string]bool{"with nothing to do": false, "that compares everything": true} {
		b.Run(name, func(b *testing.B) {
			pipeline := atRest(b)
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					pipeline.Guard.Forget(theApp)
				}
				if _, err := pipeline.Sync(b.Context(), theApp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
