package children_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// heir returns a later owner with this kind, name and UID.
func heir(kind, name string, uid types.UID) children.Owner {
	o := owner()
	o.Kind.Kind = kind
	o.SetName(name)
	o.SetUID(uid)
	return o
}

// lasting returns a dock whose Deployments outlive their owner. The Deployments cached are in its cache and
// on its server.
func lasting(t *testing.T, cached ...*appsv1.Deployment) *dock {
	t.Helper()
	d := newDock(t, cached, cached)
	d.Outlives = true
	return d
}

func TestOutlives(t *testing.T) {
	d := lasting(t)
	left, err := d.Ensure(t.Context(), owner(), want(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(left.OwnerReferences) > 0 {
		t.Errorf("it goes with its owner: %v", left.OwnerReferences)
	}
	left.UID, left.ResourceVersion = "child-uid", "7"
	stripped, recordless := left.DeepCopy(), left.DeepCopy()
	delete(stripped.Annotations, "windlass.dev/made-for")
	delete(recordless.Annotations, children.RecordAnnotation)
	controlled := left.DeepCopy()
	ownedBy("Job", "theirs", "x")(controlled)
	const patch, remove = "patch deployments port/boat", "delete deployments port/boat"
	for name, c := range map[string]struct {
		owner         children.Owner
		child         *appsv1.Deployment
		taken         bool
		ensure, prune []string
	}{
		"belongs to its owner": {owner: owner(), child: left, prune: []string{remove}},
		"belongs to a later owner of the same kind and name, which deletes it only after it has applied it": {
			owner: heir("Ship", "boat", "other"), child: left, ensure: []string{patch},
		},
		"does not belong to an owner of another name": {
			owner: heir("Ship", "raft", "other"), child: left, taken: true,
		},
		"does not belong to an owner of another kind": {
			owner: heir("Plane", "boat", "other"), child: left, taken: true,
		},
		"does not belong to its owner if another object controls it": {owner: owner(), child: controlled, taken: true},
		"belongs to its owner without the annotation": {
			owner: owner(), child: stripped, ensure: []string{patch}, prune: []string{remove},
		},
		"belongs to its owner without the record": {
			owner: owner(), child: recordless, ensure: []string{patch}, prune: []string{remove},
		},
		"belongs to nobody without annotation and record": {owner: owner(), child: made(t, foreign), taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := lasting(t, c.child)
			_, err := d.Ensure(t.Context(), c.owner, want(), nil)
			controllertest.Equal(t, "is taken", c.taken, err != nil)
			controllertest.Equal(t, "writes", c.ensure, d.journal.Writes())
			d = lasting(t, c.child)
			if err := d.Prune(t.Context(), c.owner, "boat"); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes of Prune", c.prune, d.journal.Writes())
		})
	}
}

func TestEnsureKeepsFieldsThatKeepCopies(t *testing.T) {
	keepImage := func(want, live *appsv1.Deployment) {
		want.Spec.Template.Spec.Containers[0].Image = live.Spec.Template.Spec.Containers[0].Image
	}
	for name, live := range map[string]struct{ cached, live []*appsv1.Deployment }{
		"of a child in the cache": {
			[]*appsv1.Deployment{made(t, image("iron:1"))}, []*appsv1.Deployment{made(t, image("iron:1"))},
		},
		"of a child that the cache lacks": {nil, []*appsv1.Deployment{made(t, image("iron:1"))}},
		"of a child without its label":    {nil, []*appsv1.Deployment{made(t, image("iron:1"), unlabelled)}},
		"of a child with drift in another field": {
			[]*appsv1.Deployment{made(t, image("iron:1"), without("FLAG"))}, []*appsv1.Deployment{
				made(t, image("iron:1"), without("FLAG")),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDock(t, live.cached, live.live)
			d.Keep = keepImage
			wanted := want()
			got, err := d.Ensure(t.Context(), owner(), wanted, nil)
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "image", "iron:1", got.Spec.Template.Spec.Containers[0].Image)
			controllertest.Equal(t, "what was wanted, afterwards", want(), wanted)
		})
	}
}
