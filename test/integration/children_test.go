//go:build integration

package integration

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/test/world"
)

func TestADeletedChildIsMadeAgain(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		namespace, client := shared.NewNamespace(t), dynamicClient(t)
		makeEverything(t, o, shared, namespace)
		for _, c := range o.childTypes() {
			before := c.get(t, client, namespace)
			c.delete(t, client, namespace)
			if c.Resource == "persistentvolumeclaims" { // which waits until no Pod has it
				if _, err := shared.Kubectl(t.Context(), "", "delete", "pod", "shop-0", "-n", namespace); err != nil {
					t.Fatal(err)
				}
			}
			world.Eventually(t, c.Resource+" to be made again", func(context.Context) (bool, error) {
				again := c.get(t, client, namespace)
				return again != nil && again.GetUID() != before.GetUID(), nil
			})
			o.ready(t, shared, namespace)
			if diff := cmp.Diff(c.essence(before), c.essence(c.get(t, client, namespace))); diff != "" {
				t.Errorf("%s (-before +after):\n%s", c.Resource, diff)
			}
		}
	})
}

func TestANameThatIsTakenIsLeftAlone(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		for _, c := range o.childTypes() {
			for whose, owned := range map[string]bool{"nobody's": false, "somebody's": true} {
				t.Run(whose+" "+c.Resource, func(t *testing.T) {
					t.Parallel()
					takenName(t, o, c, owned)
				})
			}
		}
	})
}

func takenName(t *testing.T, o owner, c childType, owned bool) {
	t.Helper()
	namespace, client := shared.NewNamespace(t), dynamicClient(t)
	c.makeTheirs(t, client, namespace, owned)
	settled := asWritten(c.get(t, client, namespace))
	o.prepare(t, shared, namespace)
	o.create(t, shared, namespace)
	o.waitsFor(t, namespace, "NameConflict")
	if diff := cmp.Diff(settled, asWritten(c.get(t, client, namespace))); diff != "" {
		t.Errorf("their object (-before +after):\n%s", diff)
	}
	if !owned {
		c.delete(t, client, namespace)
		o.ready(t, shared, namespace) // at its next look
		return
	}
	if _, err := shared.Kubectl(t.Context(), "", "delete", o.name(), nameOf(o, namespace), "-n", namespace, "--cascade=foreground", "--timeout=100s"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settled, asWritten(c.get(t, client, namespace))); diff != "" {
		t.Errorf("their object once the owner is gone (-before +after):\n%s", diff)
	}
}

func TestChildrenGoWithTheirOwnerUnlessTheyAreOrphaned(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		for cascade, stays := range map[string]bool{"background": false, "foreground": false, "orphan": true} {
			t.Run(cascade, func(t *testing.T) {
				t.Parallel()
				namespace, client := shared.NewNamespace(t), dynamicClient(t)
				makeEverything(t, o, shared, namespace)
				for _, c := range o.childTypes() {
					c.seenByGarbageCollection(t, client, namespace)
				}
				if _, err := shared.Kubectl(t.Context(), "", "delete", o.name(), nameOf(o, namespace), "-n", namespace, "--cascade="+cascade, "--timeout=60s"); err != nil {
					t.Fatal(err)
				}
				for _, c := range o.childTypes() {
					if stays {
						if object := c.get(t, client, namespace); object == nil || object.GetDeletionTimestamp() != nil || len(object.GetOwnerReferences()) > 0 {
							t.Errorf("%s is not orphaned: %v", c.Resource, object)
						}
						continue
					}
					world.Eventually(t, c.Resource+" to go", func(context.Context) (bool, error) { return c.get(t, client, namespace) == nil, nil })
				}
				if stays { // an owner of that name is another one: what is there is not its own
					o.create(t, shared, namespace)
					o.waitsFor(t, namespace, "NameConflict")
				}
			})
		}
	})
}

func TestOwnersRunWherePodsAreRestricted(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		if o == owner(&platforms) {
			return // it makes no Pods, and an At runs whatever its command needs
		}
		namespace := shared.NewNamespace(t)
		if _, err := shared.Kubectl(t.Context(), "", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
			t.Fatal(err)
		}
		makeEverything(t, o, shared, namespace)
	})
}
