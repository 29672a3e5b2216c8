package children_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// voyage is the scope of a reconcile of a ship.
type voyage struct{ children.Owner }

// deploymentsOf returns the Deployments of a clientset as a Resource.
func deploymentsOf(kube *fake.Clientset) children.Resource[*appsv1.Deployment] {
	return children.Resource[*appsv1.Deployment]{
		Kind: "Deployment", Informer: informers.NewSharedInformerFactory(kube, 0).Apps().V1().Deployments().Informer(),
		Client: func(namespace string) children.Client[*appsv1.Deployment] {
			return kube.AppsV1().Deployments(namespace)
		},
	}
}

func unnamed(voyage) *appsv1.Deployment { return &appsv1.Deployment{} }

// ships returns the declaration of a kind with these children.
func ships(all ...children.Child[voyage]) children.Kind[*ship, voyage] {
	return children.Kind[*ship, voyage]{
		Kind: controller.Kind[*ship]{
			GroupVersionKind: owner().Kind,
			Informer:         cache.NewSharedIndexInformer(&cache.ListWatch{}, &ship{}, 0, cache.Indexers{}),
		},
		Scope:    func(_ *ship, owner children.Owner) voyage { return voyage{owner} },
		Children: all,
		Finish:   func(_ voyage, err error) (controller.Result, error) { return controller.Result{}, err },
	}
}

// TestChildrenOfOneTypeHaveOwnNames applies two Deployments and one that is not desired.
func TestChildrenOfOneTypeHaveOwnNames(t *testing.T) {
	kube := fake.NewClientset()
	journal := controllertest.NewJournal(kube)
	deployments := deploymentsOf(kube)
	var applied []string
	second := children.Owns(deployments, unnamed)
	second.Suffix, second.Needs = "-second", []string{"Deployment"}
	second.Applied = func(_ voyage, live *appsv1.Deployment) { applied = append(applied, live.Name) }
	third := children.Owns(deployments, unnamed)
	third.Suffix, third.When = "-third", func(voyage) bool { return false }
	kind := ships(children.Owns(deployments, unnamed), second, third)
	declared, err := kind.Declare()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := declared.Reconciler.Reconcile(t.Context(), owner().Object.(*ship)); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{"create deployments port/boat", "create deployments port/boat-second"},
		journal.Writes())
	controllertest.Equal(t, "applied", []string{"boat-second"}, applied)
	controllertest.Equal(t, "whether Deployments are watched once", true, len(declared.Owned) == 1 &&
		declared.Owned[0] == deployments.Informer)
	controllertest.Equal(t, "whether a step has the same Tracker", true, declared.Tracker == second.Type().Tracker)
}

// TestChildThatOutlivesItsOwnerIsWatchedByName checks which owner an event of such a child concerns.
func TestChildThatOutlivesItsOwnerIsWatchedByName(t *testing.T) {
	child := children.Owns(deploymentsOf(fake.NewClientset()), unnamed)
	child.Suffix, child.Outlives = "-hull", true
	declared, err := ships(child).Declare()
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "watches of owned objects", 0, len(declared.Owned))
	for name, want := range map[string][]controller.Key{
		"boat-hull": {{Namespace: "port", Name: "boat"}}, "boat": nil, "-hull": nil,
	} {
		object := &metav1.ObjectMeta{Namespace: "port", Name: name}
		controllertest.Equal(t, "owners of "+name, want, declared.References[0].Referrers(object))
	}
}

func TestInvalidDeclarationIsRejected(t *testing.T) {
	deployments := deploymentsOf(fake.NewClientset())
	type declaration = children.Declaration[voyage, *appsv1.Deployment]
	child := func(change func(*declaration)) *declaration {
		d := children.Owns(deployments, unnamed)
		change(d)
		return d
	}
	for name, c := range map[string]struct {
		kind children.Kind[*ship, voyage]
		want string
	}{
		"a child that is not watched": {
			ships(child(func(d *declaration) { d.Resource.Informer = nil })),
			`child "Deployment" lacks its name, Resource`,
		},
		"a child without desired state": {
			ships(child(func(d *declaration) { d.Desired = nil })),
			`child "Deployment" lacks its name, Resource, Desired`,
		},
		"another Tracker": {
			func() children.Kind[*ship, voyage] { k := ships(); k.Tracker = controller.NewTracker(); return k }(),
			"do not set Reconciler, Tracker and Owned",
		},
		"a watch too many": {
			func() children.Kind[*ship, voyage] {
				k := ships()
				k.Owned = append(k.Owned, deployments.Informer)
				return k
			}(), "do not set Reconciler, Tracker and Owned",
		},
		"no function that sets the status": {
			func() children.Kind[*ship, voyage] { k := ships(); k.Finish = nil; return k }(), "Scope or Finish is not set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.kind.Declare()
			controllertest.ErrorContains(t, "declaring kind Ship: "+c.want, err)
		})
	}
}

// TestConditionsHaveErrorBeforeFinish checks that a kind need not set conditions for an error.
func TestConditionsHaveErrorBeforeFinish(t *testing.T) {
	kind := ships(children.Step[voyage]{
		Name: "a", Apply: func(context.Context, voyage) error { return errors.New("rejected") },
	})
	var during []string
	kind.Finish = func(s voyage, err error) (controller.Result, error) {
		during = controllertest.Conditions(s.Object)
		return controller.Result{}, err
	}
	declared, err := kind.Declare()
	if err != nil {
		t.Fatal(err)
	}
	_, err = declared.Reconciler.Reconcile(t.Context(), owner().Object.(*ship))
	controllertest.ErrorContains(t, "rejected", err)
	controllertest.Equal(t, "conditions", []string{
		"Progressing=True ReconcileError: rejected", "Ready=False ReconcileError: rejected",
	}, during)
}
