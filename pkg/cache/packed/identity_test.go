package packed_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// large is a size in bytes. Eight Secrets of this size fit into the budget of a namespace, but nine do not.
const large = budget.Namespace/8 - 1<<12

// secret returns a large Secret that an App controls.
func secret(n int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint(n), UID: types.UID(fmt.Sprint(n)), ResourceVersion: "7",
			OwnerReferences: deployment(1).OwnerReferences,
		},
		Data: map[string][]byte{"key": make([]byte, large)},
	}
}

func TestTransformCachesIdentityOfForeignObject(t *testing.T) {
	foreign := secret(1)
	foreign.Labels = map[string]string{"app.kubernetes.io/managed-by": "windlass"}
	foreign.Annotations = map[string]string{"example.com/theirs": strings.Repeat("x", 1<<17)}
	foreign.DeletionTimestamp = ptr.To(metav1.Unix(7, 0))
	for name, owners := range map[string][]metav1.OwnerReference{
		"nobody's": nil, "another kind's": {
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: ptr.To(true)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := foreign.DeepCopy()
			object.OwnerReferences = owners
			o := pack(t, new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev"), object)
			want := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "1", UID: "1", ResourceVersion: "7", OwnerReferences: owners,
				DeletionTimestamp: foreign.DeletionTimestamp,
			}}
			if diff := cmp.Diff(packed.Whole(want), unpack(t, o)); diff != "" {
				t.Errorf("it is (-want +got):\n%s", diff)
			}
			if o.Size() > 256 {
				t.Errorf("it takes %d bytes", o.Size())
			}
		})
	}
}

func TestTransformDoesNotCacheObjectOverBudget(t *testing.T) {
	transform, held := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev"), []any{}
	for n := range 8 {
		whole, err := transform(secret(n))
		if _, ok := whole.(*corev1.Secret); !ok || err != nil {
			t.Fatalf("Secret %d became a %T (%v)", n, whole, err)
		}
		held = append(held, whole)
	}
	exceeded := (*packed.ExceededError)(nil)
	o := pack(t, transform, secret(8))
	if _, err := o.Unpack(); !errors.As(err, &exceeded) || exceeded.Fits() || o.GetResourceVersion() != "7" {
		t.Errorf("of one too many is cached %v (%v)", o, err)
	} else {
		controllertest.ErrorContains(t, "shop/8 is not cached, because the large objects of namespace shop "+
			"have more than", err)
	}
	if again, err := transform(held[3].(*corev1.Secret).DeepCopy()); err != nil || again.(*corev1.Secret).Name != "3" {
		t.Errorf("another version of one became %v (%v)", again, err)
	}
	config := &corev1.ConfigMap{
		ObjectMeta: *secret(9).ObjectMeta.DeepCopy(), BinaryData: map[string][]byte{"key": make([]byte, budget.Owned)},
	}
	if _, err := pack(t, transform, config).Unpack(); !errors.As(err, &exceeded) || exceeded.Fits() {
		t.Errorf("an object that is too large is cached (%v)", err)
	} else {
		controllertest.ErrorContains(t, "bytes, and at most 1048576 are allowed; make it smaller", err)
	}
	runtime.KeepAlive(held)
}

func TestRefillCachesObjectOnceThereIsRoom(t *testing.T) {
	for name, make := range map[string]func(n int) packed.Whole{
		"a Secret":    func(n int) packed.Whole { return secret(n) },
		"a ConfigMap": func(n int) packed.Whole { return noise(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			transform, held := new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev"), []any{}
			var o *packed.Object
			exceeded := (*packed.ExceededError)(nil)
			for n := 0; exceeded == nil; n++ {
				whole, err := transform(make(n))
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, whole)
				if last, ok := whole.(*packed.Object); ok {
					if _, err := last.Unpack(); errors.As(err, &exceeded) {
						o = last
					}
				}
			}
			live := make(len(held) - 1)
			if err := exceeded.Refill(live); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Unpack(); !errors.Is(err, exceeded) {
				t.Errorf("it is cached without room (%v)", err)
			}
			clear(held)
			for !exceeded.Fits() {
				runtime.GC()
			}
			newer := live.DeepCopyObject().(packed.Whole)
			newer.SetResourceVersion("8")
			if err := exceeded.Refill(newer); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Unpack(); !errors.Is(err, exceeded) {
				t.Errorf("another version than the cache knows is cached (%v)", err)
			}
			if err := exceeded.Refill(live); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(live, unpack(t, o)); diff != "" {
				t.Errorf("it is cached as (-want +got):\n%s", diff)
			}
		})
	}
}

// noise returns a ConfigMap that an App controls and that packing cannot make smaller.
func noise(t *testing.T, n int) *corev1.ConfigMap {
	t.Helper()
	data := make([]byte, large)
	random := rand.NewChaCha8([32]byte{byte(n)})
	if _, err := random.Read(data); err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: secret(n).ObjectMeta, BinaryData: map[string][]byte{"key": data}}
}
