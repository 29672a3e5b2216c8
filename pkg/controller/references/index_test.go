package references_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/references"
)

func TestIndexFindsObjectsByReference(t *testing.T) {
	pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	index, err := references.NewIndex(pods, "account", func(pod *corev1.Pod) []string {
		return []string{pod.Namespace + "/" + pod.Spec.ServiceAccountName}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		controllertest.Load(t, pods.GetStore(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
				ServiceAccountName: "of-" + name,
			},
		})
	}
	controllertest.Load(t, pods.GetStore(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "no-pod"},
	})

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-a"}}
	want := []controller.Key{{Namespace: "default", Name: "a"}}
	controllertest.Equal(t, "the Pods of an account", want, index.Of(account))
	controllertest.Equal(t, "the Pods of a value", want, index.Find("default/of-a"))
	controllertest.Equal(t, "the Pods of an unknown account", nil, index.Find("default/of-c"))
}

func TestNewIndexRejectsDuplicateName(t *testing.T) {
	pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	none := func(*corev1.Pod) []string { return nil }
	if _, err := references.NewIndex(pods, "account", none); err != nil {
		t.Fatal(err)
	}
	if _, err := references.NewIndex(pods, "account", none); err == nil {
		t.Error("a second index of the same name was added")
	}
}

func TestIndexSurvivesPanic(t *testing.T) {
	pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	index, err := references.NewIndex(pods, "priority", func(pod *corev1.Pod) []string {
		return []string{pod.Namespace + "/" + string(*pod.Spec.PreemptionPolicy)}
	})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Load(t, pods.GetStore(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "without"}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "with"}, Spec: corev1.PodSpec{
				PreemptionPolicy: ptr.To(corev1.PreemptNever),
			},
		})
	controllertest.Equal(t, "the Pods of a value", []controller.Key{
		{Namespace: "default", Name: "with"},
	}, index.Find("default/Never"))
	controllertest.Equal(t, "cached Pods", 2, len(pods.GetStore().List()))
}
