package children_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// voyage is the scope of a reconcile of a ship.
type voyage struct{ children.Owner }

// reconciled reconciles a ship of a kind that declares these Deployments. It returns the writes and the error
// of the reconcile.
func reconciled(t *testing.T, desired ...func(voyage) *appsv1.Deployment) (writes []string, err error) {
	t.Helper()
	kube := fake.NewClientset()
	journal := controllertest.NewJournal(kube)
	deployments := children.Resource[*appsv1.Deployment]{
		Kind: "Deployment", Informer: informers.NewSharedInformerFactory(kube, 0).Apps().V1().Deployments().Informer(),
		Client: func(namespace string) children.Client[*appsv1.Deployment] {
			return kube.AppsV1().Deployments(namespace)
		},
	}
	kind := ships(func(_ voyage, failure error) error { return failure })
	for _, d := range desired {
		kind.Children = append(kind.Children, children.Owns(deployments, d))
	}
	declared, err := kind.Declare()
	if err != nil {
		return nil, err
	}
	pipeline := declared.Pipeline(controller.Runtime{Events: &controllertest.Recorder{}, Clock: clocktesting.NewFakeClock(time.Now())})
	_, err = pipeline.Reconciler.Reconcile(t.Context(), owner().Object.(*ship))
	return journal.Writes(), err
}

// ships returns the declaration of a kind without children.
func ships(finish func(voyage, error) error) children.Kind[*ship, voyage] {
	return children.Kind[*ship, voyage]{
		Kind: controller.Kind[*ship]{
			GroupVersionKind: owner().Kind,
			Informer:         cache.NewSharedIndexInformer(&cache.ListWatch{}, &ship{}, 0, cache.Indexers{}),
		},
		Scope:  func(_ *ship, owner children.Owner) voyage { return voyage{owner} },
		Finish: finish,
	}
}

func unnamed(voyage) *appsv1.Deployment { return &appsv1.Deployment{} }

func named(voyage) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "another"}}
}

func TestChildHasNameAndNamespaceOfOwner(t *testing.T) {
	writes, err := reconciled(t, unnamed)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{"create deployments port/boat"}, writes)
}

func TestInvalidDeclarationWritesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		desired []func(voyage) *appsv1.Deployment
		want    string
	}{
		"a child with another name":     {[]func(voyage) *appsv1.Deployment{named}, "the desired Deployment has the name another"},
		"two children of the same type": {[]func(voyage) *appsv1.Deployment{unnamed, unnamed}, "declaring kind Ship: two children have the name Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			writes, err := reconciled(t, test.desired...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: wanted %q, got %v", test.want, err)
			}
			controllertest.Equal(t, "writes", nil, writes)
		})
	}
}

func TestEnsureDistinguishesOwnersByGroup(t *testing.T) {
	other := owner()
	other.Kind.Group = "other.example.com"
	live := made(t, func(d *appsv1.Deployment) {
		d.OwnerReferences[0].APIVersion, d.OwnerReferences[0].UID = "other.example.com/v1", "other-uid"
	})
	for name, test := range map[string]struct {
		owner children.Owner
		waits bool
	}{
		"an earlier owner of the same group": {other, true},
		"an owner of another group":          {owner(), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDock(t, []*appsv1.Deployment{live}, []*appsv1.Deployment{live})
			_, err := d.Ensure(context.Background(), test.owner, want(), nil)
			controllertest.Equal(t, "the error says that it waits", test.waits, err != nil && strings.Contains(err.Error(), "belongs to an earlier Ship"))
			controllertest.Equal(t, "the error says that the name is taken", !test.waits, err != nil && strings.Contains(err.Error(), "already exists and belongs to "))
		})
	}
}
