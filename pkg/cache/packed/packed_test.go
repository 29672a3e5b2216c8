package packed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
)

// deployment returns the n-th of many similar Deployments.
func deployment(n int) *appsv1.Deployment {
	name, id := fmt.Sprintf("app-%05d", n), rand.New(rand.NewPCG(1, uint64(n)))
	uid := func() types.UID { return types.UID(fmt.Sprintf("%016x-%016x", id.Uint64(), id.Uint64())) }
	labels := map[string]string{
		"app.kubernetes.io/name": "app", "app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": "windlass",
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: uid(), ResourceVersion: fmt.Sprint(1000 + n), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "windlass.dev/v1alpha1", Kind: "App", Name: name, UID: uid(), Controller: ptr.To(true)},
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "windlass-controller", Operation: "Update"}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "registry.example.com/shop:1", ImagePullPolicy: corev1.PullIfNotPresent,
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
					Env:   []corev1.EnvVar{{Name: "MODE", Value: "fast"}},
				}}}},
		},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, ReadyReplicas: 2},
	}
	record, _ := json.Marshal(d.Spec) // a spec can always be marshaled
	d.Annotations = map[string]string{"windlass.dev/last-applied": string(record)}
	return d
}

func pack(t testing.TB, transform cache.TransformFunc, object any) *packed.Object {
	t.Helper()
	o, err := transform(object)
	if err != nil {
		t.Fatal(err)
	}
	is, ok := o.(*packed.Object)
	if !ok {
		t.Fatalf("it is a %T", o)
	}
	return is
}

func unpack(t testing.TB, o *packed.Object) packed.Whole {
	t.Helper()
	whole, err := o.Unpack()
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

func marshalled(t testing.TB, object packed.Whole) []byte {
	t.Helper()
	data, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// enough is more than the number of objects of a type that are kept unpacked.
const enough = 200

func TestUnpackReturnsPackedObject(t *testing.T) {
	fuzz := fuzzer.FuzzerFor(metafuzzer.Funcs, mathrand.NewSource(1), scheme.Codecs)
	for _, of := range []packed.Whole{
		&corev1.ConfigMap{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
		&networkingv1.Ingress{}, &autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{},
	} {
		t.Run(fmt.Sprintf("%T", of), func(t *testing.T) {
			transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
			var objects []*packed.Object
			var want [][]byte
			for range enough {
				filled := of.DeepCopyObject().(packed.Whole)
				fuzz.Fill(filled)
				filled.SetManagedFields(nil)
				filled.SetOwnerReferences(deployment(1).OwnerReferences)
				if config, ok := filled.(*corev1.ConfigMap); ok {
					config.Immutable = nil
				}
				object := of.DeepCopyObject().(packed.Whole) // as a client decodes it
				if err := object.Unmarshal(marshalled(t, filled)); err != nil {
					t.Fatal(err)
				}
				want = append(want, marshalled(t, object))
				objects = append(objects, pack(t, transform, object))
			}
			for i, o := range objects {
				if !bytes.Equal(want[i], marshalled(t, unpack(t, o))) {
					t.Fatalf("the %d. is another", i)
				}
			}
		})
	}
}

func TestImmutableConfigMapIsCachedWithoutData(t *testing.T) {
	config := &corev1.ConfigMap{
		ObjectMeta: deployment(1).ObjectMeta, Immutable: ptr.To(true), Data: map[string]string{"a": "1"},
		BinaryData: map[string][]byte{"b": make([]byte, budget.Owned)},
	}
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	cached := unpack(t, pack(t, transform, config)).(*corev1.ConfigMap)
	if cached.Name != config.Name || !*cached.Immutable || len(cached.Data)+len(cached.BinaryData) > 0 {
		t.Errorf("the cache has %v, want the ConfigMap without data", cached)
	}
}

func TestPackedObjectHasIdentityAndOwners(t *testing.T) {
	controlled, free := deployment(1), deployment(2)
	free.OwnerReferences = nil
	for _, d := range []*appsv1.Deployment{controlled, free} {
		want := &metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion,
			OwnerReferences: d.OwnerReferences,
		}
		o := pack(t, new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev"), d)
		if diff := cmp.Diff(metav1.Object(want), o.GetObjectMeta()); diff != "" {
			t.Errorf("it tells (-want +got):\n%s", diff)
		}
		if o.GetUID() != want.UID || o.GetResourceVersion() != want.ResourceVersion {
			t.Errorf("it has UID %s and version %s", o.GetUID(), o.GetResourceVersion())
		}
		key, err := cache.MetaNamespaceKeyFunc(o)
		if err != nil || key != "default/"+d.Name {
			t.Errorf("its key is %q (%v)", key, err)
		}
	}
}

func TestSimilarObjectsTakeLittleMemory(t *testing.T) {
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	size, plain := 0, 0
	for n := range enough {
		d := deployment(n)
		o := pack(t, transform, d)
		plain += d.Size()
		size += o.Size()
	}
	if size*5 > plain {
		t.Errorf("%d Deployments of %d bytes take %d", enough, plain, size)
	}
}

func TestObjectsOfSeveralShapesTakeLittleMemory(t *testing.T) {
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	size, plain := 0, 0
	for n := range enough {
		c := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint(n), OwnerReferences: deployment(n).OwnerReferences,
			}, Data: map[string]string{},
		}
		sort := rand.New(rand.NewPCG(7, uint64(n%4)))
		for range 20 {
			c.Data[fmt.Sprint(sort.Uint64())] = fmt.Sprint(sort.Uint64(), sort.Uint64())
		}
		plain += c.Size()
		size += pack(t, transform, c).Size()
	}
	if size*5 > plain {
		t.Errorf("%d ConfigMaps of %d bytes take %d", enough, plain, size)
	}
}

func TestLatestObjectsStayUnpacked(t *testing.T) {
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	first := deployment(0)
	o := pack(t, transform, first)
	if unpack(t, o) != packed.Whole(first) {
		t.Error("the latest was unpacked")
	}
	for n := range enough {
		pack(t, transform, deployment(n+1))
	}
	if unpack(t, o) == packed.Whole(first) {
		t.Error("the first is kept whole")
	}
}

func TestShardsShareDictionaryAndLatestObjects(t *testing.T) {
	var packers packed.Packers
	shard := packers.Transform(&budget.Budget{}, "windlass.dev")
	another := packers.Transform(&budget.Budget{}, "windlass.dev")
	first := deployment(0)
	o := pack(t, shard, first)
	if size := pack(t, another, deployment(1)).Size(); size*5 > first.Size() {
		t.Errorf("the first Deployment of another shard takes %d of %d bytes", size, first.Size())
	}
	for n := range enough {
		pack(t, another, deployment(n+2))
	}
	if unpack(t, o) == packed.Whole(first) {
		t.Error("each shard keeps its latest objects whole")
	}
}

func TestTransformKeepsObjectThatCannotBePacked(t *testing.T) {
	for _, object := range []any{
		cache.DeletedFinalStateUnknown{Key: "a/b", Obj: deployment(1)},
		&v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		pack(t, new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev"), deployment(1)),
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: deployment(1).OwnerReferences}, Data: map[string][]byte{
				"password": []byte("canary"),
			},
		},
		unwritable{&corev1.Service{ObjectMeta: metav1.ObjectMeta{OwnerReferences: deployment(1).OwnerReferences}}},
	} {
		if got, err := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")(object); err != nil ||
			!reflect.DeepEqual(object, got) {
			t.Errorf("of a %T it makes %v (%v)", object, got, err)
		}
	}
}

type unwritable struct{ *corev1.Service }

func (unwritable) SetManagedFields([]metav1.ManagedFieldsEntry) {}
func (unwritable) Marshal() ([]byte, error)                     { return nil, errors.New("no") }

func TestUnpackRunsConcurrentlyWithPack(t *testing.T) {
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	var objects []*packed.Object
	for n := range enough {
		objects = append(objects, pack(t, transform, deployment(n)))
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for n, o := range objects {
				if whole, err := o.Unpack(); err != nil || whole.GetName() != deployment(n).Name {
					t.Errorf("it is %v (%v)", whole, err)
				}
			}
		})
	}
	for n := range enough {
		pack(t, transform, deployment(enough+n))
	}
	readers.Wait()
}

func BenchmarkPack(b *testing.B) {
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	d := deployment(1)
	b.ReportAllocs()
	for b.Loop() {
		pack(b, transform, d)
	}
}

func BenchmarkUnpack(b *testing.B) {
	transform := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	o := pack(b, transform, deployment(0))
	for n := range enough {
		pack(b, transform, deployment(n))
	}
	b.ReportAllocs()
	for b.Loop() {
		unpack(b, o)
	}
}
