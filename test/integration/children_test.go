//go:build integration

package integration

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"windlass.dev/windlass/test/framework"
)

func TestReconcileRecreatesDeletedChildren(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		namespace, client := shared.NewNamespace(t), dynamicClient(t)
		createEverything(t, o, shared, namespace)
		for _, c := range o.children {
			before := c.get(t, client, namespace)
			c.delete(t, client, namespace)
			if c.users != "" { // the API server keeps the claim while a Pod uses it
				if _, err := shared.Kubectl(t.Context(), "", "delete", "pod", c.users, "-n", namespace); err != nil {
					t.Fatal(err)
				}
			}
			var again *unstructured.Unstructured
			framework.Eventually(t, c.Resource+" to be created again", func(context.Context) (bool, error) {
				again = c.get(t, client, namespace)
				return again != nil && again.GetUID() != before.GetUID() && (c.users == "" || isBound(again)), nil
			})
			o.ready(t, shared, namespace)
			if diff := cmp.Diff(c.comparableFields(before), c.comparableFields(c.get(t, client, namespace))); diff != "" {
				t.Errorf("%s (-before +after):\n%s", c.Resource, diff)
			}
		}
	})
}

// waitForCondition waits until a condition of an object of kind o has a reason.
func (o owner) waitForCondition(t *testing.T, namespace, condition, reason string) {
	t.Helper()
	framework.Eventually(t, condition+" to have the reason "+reason, func(ctx context.Context) (bool, error) {
		got, err := shared.Kubectl(ctx, "", "get", o.name, nameOf(o, namespace), "-n", namespace, "-o",
			`jsonpath={.status.conditions[?(@.type=="`+condition+`")].reason}`)
		return got == reason, err
	})
}

// isBound reports whether a PersistentVolumeClaim is bound.
func isBound(claim *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(claim.Object, "status", "phase")
	return phase == "Bound"
}

func TestReconcileKeepsForeignObjectWithChildName(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		for _, c := range o.children {
			for whose, owned := range map[string]bool{"unowned": false, "owned": true} {
				t.Run(whose+" "+c.Resource, func(t *testing.T) {
					t.Parallel()
					takenName(t, o, c, owned)
				})
			}
		}
	})
}

// takenName checks that an object of kind o reports a foreign object with the name of its child, and that the operator
// does not change the foreign object. If owned is true, another object owns the foreign object.
func takenName(t *testing.T, o owner, c childType, owned bool) {
	t.Helper()
	namespace, client := shared.NewNamespace(t), dynamicClient(t)
	c.createForeign(t, client, namespace, owned)
	settled := asWritten(c.get(t, client, namespace))
	o.prepare(t, shared, namespace)
	o.create(t, shared, namespace)
	if c.condition == "" {
		o.waitForReason(t, namespace, "NameConflict")
	} else {
		o.waitForCondition(t, namespace, c.condition, "NameConflict")
	}
	if diff := cmp.Diff(settled, asWritten(c.get(t, client, namespace))); diff != "" {
		t.Errorf("the foreign object (-before +after):\n%s", diff)
	}
	if !owned {
		c.delete(t, client, namespace)
		o.ready(t, shared, namespace) // after the next reconcile
		return
	}
	_, err := shared.Kubectl(t.Context(), "", "delete", o.name, nameOf(o, namespace), "-n", namespace,
		"--cascade=foreground", "--timeout=100s")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settled, asWritten(c.get(t, client, namespace))); diff != "" {
		t.Errorf("the foreign object after the deletion of the owner (-before +after):\n%s", diff)
	}
}

func TestDeletionCascadesToChildrenUnlessOrphaned(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		for cascade, stays := range map[string]bool{"background": false, "foreground": false, "orphan": true} {
			t.Run(cascade, func(t *testing.T) {
				t.Parallel()
				namespace, client := shared.NewNamespace(t), dynamicClient(t)
				createEverything(t, o, shared, namespace)
				for _, c := range o.children {
					c.waitForGarbageCollector(t, client, namespace)
				}
				_, err := shared.Kubectl(t.Context(), "", "delete", o.name, nameOf(o, namespace), "-n", namespace,
					"--cascade="+cascade, "--timeout=60s")
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range o.children {
					if c.stays && c.get(t, client, namespace) == nil {
						t.Errorf("%s %s was deleted", c.Resource, c.child)
					}
					if c.stays {
						continue
					}
					if stays {
						object := c.get(t, client, namespace)
						if object == nil || object.GetDeletionTimestamp() != nil || len(object.GetOwnerReferences()) > 0 {
							t.Errorf("%s is not orphaned: %v", c.Resource, object)
						}
						continue
					}
					framework.Eventually(t, c.Resource+" to be deleted", func(context.Context) (bool, error) {
						return c.get(t, client, namespace) == nil, nil
					})
				}
				if stays { // a new owner with this name does not adopt the orphans
					o.create(t, shared, namespace)
					o.waitForReason(t, namespace, "NameConflict")
				}
			})
		}
	})
}

func TestOwnersBecomeReadyUnderRestrictedPodSecurity(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) {
		if o.clusterScoped {
			return // a Platform itself has no Pods, and the Pods of its Ats are restricted only on request
		}
		namespace := shared.NewNamespace(t)
		_, err := shared.Kubectl(t.Context(), "", "label", "namespace", namespace,
			"pod-security.kubernetes.io/enforce=restricted")
		if err != nil {
			t.Fatal(err)
		}
		createEverything(t, o, shared, namespace)
	})
}
