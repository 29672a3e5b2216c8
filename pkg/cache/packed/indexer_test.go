package packed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
)

// named returns the metadata of an object that the operator created.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: "uid", ResourceVersion: "7", Labels: map[string]string{"app": name},
		OwnerReferences: deployment(1).OwnerReferences,
	}
}

// reads returns a function that gets the object a and lists the objects with the label app=a. get and list are the
// methods of a generated lister.
func reads[T any](get func(name string) (T, error), list func(labels.Selector) ([]T, error)) func() ([]any, error) {
	return func() ([]any, error) {
		one, err := get("a")
		if err != nil {
			return nil, err
		}
		listed, err := list(labels.SelectorFromSet(labels.Set{"app": "a"}))
		all := []any{one}
		for _, object := range listed {
			all = append(all, object)
		}
		return all, err
	}
}

func TestGeneratedListersWorkOnPackedCaches(t *testing.T) {
	type listers struct {
		object runtime.Object
		read   func(f informers.SharedInformerFactory) func() ([]any, error)
	}
	for _, of := range []listers{
		{&corev1.ConfigMap{ObjectMeta: named("a"), Data: map[string]string{"k": "v"}},
			func(f informers.SharedInformerFactory) func() ([]any, error) {
				l := f.Core().V1().ConfigMaps().Lister().ConfigMaps("default")
				return reads(l.Get, l.List)
			}},
		{&corev1.Secret{ObjectMeta: named("a"), Data: map[string][]byte{"k": []byte("v")}},
			func(f informers.SharedInformerFactory) func() ([]any, error) {
				l := f.Core().V1().Secrets().Lister().Secrets("default")
				return reads(l.Get, l.List)
			}},
		{&corev1.Service{
			ObjectMeta: named("a"), Spec: corev1.ServiceSpec{ClusterIP: "None"},
		}, func(f informers.SharedInformerFactory) func() ([]any, error) {
			l := f.Core().V1().Services().Lister().Services("default")
			return reads(l.Get, l.List)
		}},
		{&corev1.PersistentVolumeClaim{ObjectMeta: named("a"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
			func(f informers.SharedInformerFactory) func() ([]any, error) {
				l := f.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims("default")
				return reads(l.Get, l.List)
			}},
		{&appsv1.Deployment{
			ObjectMeta: named("a"), Spec: appsv1.DeploymentSpec{Paused: true},
		}, func(f informers.SharedInformerFactory) func() ([]any, error) {
			l := f.Apps().V1().Deployments().Lister().Deployments("default")
			return reads(l.Get, l.List)
		}},
		{&appsv1.StatefulSet{
			ObjectMeta: named("a"), Spec: appsv1.StatefulSetSpec{ServiceName: "s"},
		}, func(f informers.SharedInformerFactory) func() ([]any, error) {
			l := f.Apps().V1().StatefulSets().Lister().StatefulSets("default")
			return reads(l.Get, l.List)
		}},
		{&networkingv1.Ingress{
			ObjectMeta: named("a"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "h"}}},
		}, func(f informers.SharedInformerFactory) func() ([]any, error) {
			l := f.Networking().V1().Ingresses().Lister().Ingresses("default")
			return reads(l.Get, l.List)
		}},
		{&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: named("a"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3},
		}, func(f informers.SharedInformerFactory) func() ([]any, error) {
			l := f.Autoscaling().V2().HorizontalPodAutoscalers().Lister().HorizontalPodAutoscalers("default")
			return reads(l.Get, l.List)
		}},
		{&policyv1.PodDisruptionBudget{
			ObjectMeta: named("a"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		}, func(f informers.SharedInformerFactory) func() ([]any, error) {
			l := f.Policy().V1().PodDisruptionBudgets().Lister().PodDisruptionBudgets("default")
			return reads(l.Get, l.List)
		}},
	} {
		t.Run(fmt.Sprintf("%T", of.object), func(t *testing.T) {
			f := packed.NewFactory(fake.NewClientset(of.object.DeepCopyObject()), packed.Options{
				Namespace: "default", Limit: &budget.Budget{}, Groups: []string{"windlass.dev"},
			})
			read := of.read(f)
			f.Start(t.Context().Done())
			f.WaitForCacheSync(t.Context().Done())
			got, err := read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{of.object, of.object}, got); diff != "" {
				t.Errorf("read, and listed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForResourceReturnsUnpackedObjects(t *testing.T) {
	want := deployment(1)
	want.ManagedFields = nil
	f := packed.NewFactory(fake.NewClientset(want.DeepCopy()), packed.Options{
		Limit: &budget.Budget{}, Groups: []string{"windlass.dev"},
	})
	generic, err := f.ForResource(appsv1.SchemeGroupVersion.WithResource("deployments"))
	if err != nil {
		t.Fatal(err)
	}
	if err := generic.Informer().AddIndexers(cache.Indexers{"image": imageOf}); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	got, err := generic.Lister().ByNamespace(want.Namespace).Get(want.Name)
	if diff := cmp.Diff(runtime.Object(want), got); err != nil || diff != "" {
		t.Errorf("got (%v) (-want +got):\n%s", err, diff)
	}
	all, err := generic.Informer().GetIndexer().ByIndex("image", want.Spec.Template.Spec.Containers[0].Image)
	if diff := cmp.Diff([]any{want}, all); err != nil || diff != "" {
		t.Errorf("by its image (%v) (-want +got):\n%s", err, diff)
	}
}

// imageOf is an index function that reads more than the metadata.
func imageOf(obj any) ([]string, error) {
	return []string{obj.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image}, nil
}

func TestIndexerReturnsIdentityOfObjectOverLimit(t *testing.T) {
	large := deployment(1)
	large.Annotations["example.com/noise"] = strings.Repeat("x", budget.Owned)
	indexer := packed.Indexer{
		Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		}),
	}
	if err := indexer.AddIndexers(cache.Indexers{"image": imageOf}); err != nil {
		t.Fatal(err)
	}
	o := pack(t, new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev"), large)
	if err := indexer.Add(o); err != nil {
		t.Fatal(err)
	}
	exceeded := (*packed.ExceededError)(nil)
	if _, found, err := indexer.Get(o); !found || !errors.As(err, &exceeded) {
		t.Errorf("Get returned %t and %v", found, err)
	}
	if _, found, err := indexer.GetByKey("default/" + large.Name); !found || !errors.As(err, &exceeded) {
		t.Errorf("GetByKey returned %t and %v", found, err)
	}
	byNamespace, err := indexer.ByIndex(cache.NamespaceIndex, "default")
	if len(byNamespace) != 1 || byNamespace[0] != any(o) || err != nil {
		t.Errorf("ByIndex returned %v and %v", byNamespace, err)
	}
	if all := indexer.List(); len(all) != 1 || all[0] != any(o) {
		t.Errorf("List returned %v", all)
	}
	if byImage, err := indexer.ByIndex("image", large.Spec.Template.Spec.Containers[0].Image); len(byImage) > 0 ||
		err != nil {
		t.Errorf("the index of images has %v (%v)", byImage, err)
	}
	alike, err := indexer.Index(cache.NamespaceIndex, deployment(2))
	if len(alike) != 1 || err != nil {
		t.Errorf("Index returned %v and %v", alike, err)
	}
}
