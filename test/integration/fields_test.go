//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/world"
)

// TestAFieldThatIsChangedAndChangedBackLeavesNothing compares the children with those
// of an object that was made with the changed spec, and of one that was never changed.
func TestAFieldThatIsChangedAndChangedBackLeavesNothing(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) { o.comeAndGo(t) })
}

func (k *kindOf[S]) comeAndGo(t *testing.T) {
	t.Helper()
	client := dynamicClient(t)
	everything := k.made(t, k.everything())
	for _, field := range k.fields(t) {
		if len(k.changes[field]) == 0 && !slices.Contains(k.fixed, field) {
			t.Errorf("field %s is not changed by this test", field)
		}
		for _, change := range k.changes[field] {
			t.Run(field, func(t *testing.T) {
				t.Parallel()
				changed := k.everything()
				change(&changed)
				other, namespace := k.made(t, changed), k.made(t, k.everything())
				k.set(t, namespace, changed)
				k.isReady(t, shared, namespace)
				k.same(t, client, other, namespace, "as if made so")
				if slices.Contains(k.oneWay, field) {
					return
				}
				k.set(t, namespace, k.everything())
				k.isReady(t, shared, namespace)
				k.same(t, client, everything, namespace, "as if never changed")
			})
		}
	}
}

// made makes an object, and returns its namespace once it is Ready.
func (k *kindOf[S]) made(t *testing.T, spec S) (namespace string) {
	t.Helper()
	namespace = shared.NewNamespace(t)
	k.prepare(t, shared, namespace)
	k.make(t, shared, namespace, spec)
	k.isReady(t, shared, namespace)
	return namespace
}

// same waits until the children in one namespace are as those in another.
func (k *kindOf[S]) same(t *testing.T, client dynamic.Interface, wanted, namespace, what string) {
	t.Helper()
	for _, c := range k.children {
		var diff string
		t.Cleanup(func() {
			if diff != "" {
				t.Logf("what differs (-wanted +got):\n%s", diff)
			}
		})
		world.Eventually(t, c.Resource+" to be "+what, func(context.Context) (bool, error) {
			diff = cmp.Diff(c.essence(c.get(t, client, wanted)), c.essence(c.get(t, client, namespace)))
			return diff == "", nil
		})
	}
}

// fields are those of a spec in JSON. everything uses them all.
func (k *kindOf[S]) fields(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(k.everything())
	if err != nil {
		t.Fatal(err)
	}
	var used map[string]any
	if err := json.Unmarshal(text, &used); err != nil {
		t.Fatal(err)
	}
	var names []string
	spec := reflect.TypeFor[S]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if _, ok := used[name]; !ok {
			t.Errorf("%s: field %s is not used", k.resource, name)
		}
		names = append(names, name)
	}
	return names
}
