package references_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/references"
)

func TestNamedGetReadsOwnAndForeignObjects(t *testing.T) {
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	factory := metadatainformer.NewSharedInformerFactory(fake.NewSimpleMetadataClient(fake.NewTestScheme()), 0)
	own := informers.NewSharedInformerFactory(kubefake.NewClientset(), 0).Core().V1().ConfigMaps().Informer()
	named, err := references.NewNamed(factory, configMaps, own)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid", ResourceVersion: version}
	}
	small, err := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")(&corev1.ConfigMap{
		ObjectMeta: of("packed", "9"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.GetStore().Add(small); err != nil {
		t.Fatal(err)
	}
	controllertest.Load(t, own.GetStore(), &corev1.ConfigMap{ObjectMeta: of("whole", "8")})
	controllertest.Load(t, factory.ForResource(configMaps).Informer().GetStore(), &metav1.PartialObjectMetadata{
		ObjectMeta: of("theirs", "7"),
	})
	for name, want := range map[string]string{"theirs": "7", "whole": "8", "packed": "9"} {
		if object, err := named.Get("default", name); err != nil || object.GetResourceVersion() != want {
			t.Errorf("%s is %v (%v)", name, object, err)
		}
	}
	if object, err := named.Get("default", "none"); object != nil || !apierrors.IsNotFound(err) {
		t.Errorf("what is not there is %v (%v)", object, err)
	}
	controllertest.Equal(t, "informers", 2, len(named.Informers()))
}
