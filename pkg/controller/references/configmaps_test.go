package references_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/references"
)

// toy is an object that names a ConfigMap in an annotation.
type toy struct{ corev1.Pod }

func (t *toy) StatusConditions() *[]metav1.Condition { return nil }
func (t *toy) StatusObservedGeneration() *int64      { return nil }

func newToy(configMap string) *toy {
	return &toy{
		corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "toy", Annotations: map[string]string{"configMap": configMap},
			},
		},
	}
}

func namesOf(t *toy) []string {
	if name := t.Annotations["configMap"]; name != "" {
		return []string{name}
	}
	return nil
}

var errTooLong = errors.New("too long")

func colorOf(c *corev1.ConfigMap) (string, error) {
	if len(c.Data["color"]) > 10 {
		return "", errTooLong
	}
	return c.Data["color"], nil
}

// fixture has a fake cluster and a cache, both without ConfigMaps at first.
type fixture struct {
	kube       *kubefake.Clientset
	cached     cache.Store
	configMaps *references.ConfigMaps[*toy, string]
}

func newFixture(t *testing.T, toys ...*toy) *fixture {
	t.Helper()
	f := &fixture{kube: kubefake.NewClientset()}
	c := cluster.Cluster{
		Kube: f.kube, All: metadatainformer.NewSharedInformerFactory(fake.NewSimpleMetadataClient(fake.NewTestScheme()), 0),
	}
	objects := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	configMaps, err := references.NewConfigMaps(c, objects, namesOf, colorOf)
	if err != nil {
		t.Fatal(err)
	}
	for _, toy := range toys {
		if err := objects.GetIndexer().Add(toy); err != nil {
			t.Fatal(err)
		}
	}
	f.configMaps, f.cached = configMaps, configMaps.Watches()[0].Informer.GetStore()
	return f
}

// set sets the color of the ConfigMap paint in the cluster, and its version in the cache.
func (f *fixture) set(t *testing.T, version, color string) {
	t.Helper()
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "paint", UID: "paint-uid", ResourceVersion: version},
		Data:       map[string]string{"color": color},
	}
	if err := f.kube.Tracker().Add(c); apierrors.IsAlreadyExists(err) {
		err = f.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), c, "default")
		if err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Load(t, f.cached, &metav1.PartialObjectMetadata{ObjectMeta: c.ObjectMeta})
}

func TestGetWaitsForMissingConfigMap(t *testing.T) {
	f := newFixture(t)
	_, err := f.configMaps.Get(t.Context(), newToy("paint"), "paint")
	if err == nil || !strings.Contains(err.Error(), "Waiting for ConfigMap paint") {
		t.Errorf("error: %v", err)
	}
	controllertest.Equal(t, "reason", "DependencyMissing", controller.ReasonOf(err))
	controllertest.Equal(t, "reads", 0, controllertest.Reads(f.kube.Actions(), "configmaps"))
}

func TestGetReadsEachVersionOfConfigMapOnce(t *testing.T) {
	f := newFixture(t)
	for i, step := range []struct{ version, color string }{{"1", "red"}, {"2", "blue"}} {
		f.set(t, step.version, step.color)
		for range 2 {
			color, err := f.configMaps.Get(t.Context(), newToy("paint"), "paint")
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "color", step.color, color)
		}
		controllertest.Equal(t, "reads", i+1, controllertest.Reads(f.kube.Actions(), "configmaps"))
	}
}

func TestGetReturnsErrorOfInvalidConfigMap(t *testing.T) {
	f := newFixture(t)
	f.set(t, "1", strings.Repeat("x", 11))
	if _, err := f.configMaps.Get(t.Context(), newToy("paint"), "paint"); !errors.Is(err, errTooLong) {
		t.Errorf("error: %v", err)
	}
	_, _ = f.configMaps.Get(t.Context(), newToy("paint"), "paint")
	controllertest.Equal(t, "reads", 1, controllertest.Reads(f.kube.Actions(), "configmaps"))
}

func TestGetWaitsForDeletedConfigMap(t *testing.T) {
	f := newFixture(t)
	f.set(t, "1", "red")
	if err := f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), "default",
		"paint"); err != nil {
		t.Fatal(err)
	}
	_, err := f.configMaps.Get(t.Context(), newToy("paint"), "paint")
	controllertest.Equal(t, "reason", "DependencyMissing", controller.ReasonOf(err))
}

func TestReferrersReturnsObjectsThatNameConfigMap(t *testing.T) {
	f := newFixture(t, newToy("paint"))
	watch := f.configMaps.Watches()[0]
	controllertest.Equal(t, "those that name it", []controller.Key{
		{Namespace: "default", Name: "toy"},
	}, watch.Referrers(&metav1.ObjectMeta{Namespace: "default", Name: "paint"}))
	controllertest.Equal(t, "those that name another", nil,
		watch.Referrers(&metav1.ObjectMeta{Namespace: "default", Name: "else"}))
	controllertest.Equal(t, "those in another namespace", nil,
		watch.Referrers(&metav1.ObjectMeta{Namespace: "other", Name: "paint"}))
}
