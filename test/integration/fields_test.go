//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/framework"
)

var pairSeed = flag.Uint64("integration.pairs", 1, "seed that selects the pairs of fields that are changed together")

// TestRevertedFieldChangeLeavesNoTrace makes a quarter of the changes of mutable fields (see framework.Quarter), by
// themselves and in random pairs, and reverts a change if the API server allows it. After the change, the children must
// equal the children of an object that was created with the changed spec. After the revert, the children must equal the
// children of an object that was never changed.
func TestRevertedFieldChangeLeavesNoTrace(t *testing.T) {
	forAll(t, func(t *testing.T, o owner) { o.changeAndRevertFields(t) })
}

func (k *kindOf[S]) changeAndRevertFields(t *testing.T) {
	t.Helper()
	client := dynamicClient(t)
	everything := k.createReady(t, k.everything())
	var all []fieldChange[S]
	for _, field := range k.fields(t) {
		if len(k.changes[field]) == 0 && !slices.Contains(k.fixed, field) {
			t.Errorf("this test does not change field %s", field)
		}
		for _, function := range k.changes[field] {
			all = append(all, fieldChange[S]{field, function, !slices.Contains(k.oneWay, field)})
		}
	}
	all = append(all, randomPairs(all, k.alone)...)
	quarter, err := framework.Quarter(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range quarter {
		t.Run(c.field, func(t *testing.T) {
			t.Parallel()
			changed := k.everything()
			c.make(&changed)
			other, namespace := k.createReady(t, changed), k.createReady(t, k.everything())
			k.setSpec(t, namespace, changed)
			k.ready(t, shared, namespace)
			k.waitSame(t, client, other, namespace, "like the child of an object that was created with the changed spec")
			if !c.canRevert {
				return
			}
			k.setSpec(t, namespace, k.everything())
			k.ready(t, shared, namespace)
			k.waitSame(t, client, everything, namespace, "like the child of an unchanged object")
		})
	}
}

// fieldChange is a change of one or two fields.
type fieldChange[S any] struct {
	field     string
	make      func(*S)
	canRevert bool
}

// randomPairs returns at most one pair for every four changes. The two changes of a pair are of different fields, and
// not of a field in alone.
func randomPairs[S any](all []fieldChange[S], alone []string) (pairs []fieldChange[S]) {
	random := rand.New(rand.NewPCG(*pairSeed, 0))
	for range len(all) / 4 {
		a, b := all[random.IntN(len(all))], all[random.IntN(len(all))]
		if a.field == b.field || slices.Contains(alone, a.field) || slices.Contains(alone, b.field) {
			continue
		}
		pairs = append(pairs, fieldChange[S]{a.field + "+" + b.field, func(spec *S) {
			a.make(spec)
			b.make(spec)
		}, a.canRevert && b.canRevert})
	}
	return pairs
}

// createReady creates an object in a new namespace, and returns the namespace when the object is Ready.
func (k *kindOf[S]) createReady(t *testing.T, spec S) (namespace string) {
	t.Helper()
	namespace = shared.NewNamespace(t)
	k.prepare(t, shared, namespace)
	k.createWithSpec(t, shared, namespace, spec)
	k.ready(t, shared, namespace)
	return namespace
}

// waitSame waits until the children in namespace equal the children in namespace wanted. what describes the awaited
// state in the message of a failure.
func (k *kindOf[S]) waitSame(t *testing.T, client dynamic.Interface, wanted, namespace, what string) {
	t.Helper()
	for _, c := range k.children {
		var diff string
		t.Cleanup(func() {
			if diff != "" {
				t.Logf("the last difference (-want +got):\n%s", diff)
			}
		})
		framework.Eventually(t, c.Resource+" to be "+what, func(context.Context) (bool, error) {
			diff = cmp.Diff(c.comparableFields(c.get(t, client, wanted)), c.comparableFields(c.get(t, client, namespace)))
			return diff == "", nil
		})
	}
}

// fields returns the JSON names of the fields of a spec. It fails the test unless k.everything sets all fields except
// k.shortForms.
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
		if _, ok := used[name]; !ok && !slices.Contains(k.shortForms, name) {
			t.Errorf("%s: the spec of everything does not set field %s", k.name, name)
		}
		names = append(names, name)
	}
	return names
}
