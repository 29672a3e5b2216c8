//go:build integration

package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func TestOwnerCostsOneCreatePerChildAndOneStatusWritePerPhase(t *testing.T) {
	framework.InQuarter(t)
	forAll(t, func(t *testing.T, o owner) {
		namespace := shared.NewNamespace(t)
		createEverything(t, o, shared, namespace)
		requests := func() []string {
			return requestsWith(t, func(r framework.Request) bool { return o.concerns(r, namespace) })
		}
		want, made := o.requests(namespace), requests()
		reads := func(lines []string) []string { // sorted, because their order does not matter
			return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
				return !strings.HasPrefix(line, "get")
			})))
		}
		writes := func(lines []string) []string {
			lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, "get") })
			if in, _ := o.object(namespace); in == "" {
				return slices.Compact(lines) // the number of status writes of a Platform depends on how fast its children change
			}
			return lines
		}
		// The status of an App is written once more, with the reason RoutePending, if its Pods are available before a Gateway
		// accepts its route.
		if o.name == "app" && len(made) == len(want)+1 {
			framework.Eventually(t, "the Event RoutePending", func(ctx context.Context) (bool, error) {
				reasons, err := shared.Kubectl(ctx, "", "get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}")
				return strings.Contains(reasons, "RoutePending"), err
			})
			want = append(want, want[len(want)-1])
		}
		if diff := cmp.Diff(reads(want), reads(made)) + cmp.Diff(writes(want), writes(made)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
			events, err := shared.Kubectl(t.Context(), "", "get", "events.events.k8s.io", "-n", namespace)
			t.Logf("Events, one for each change of phase (%v):\n%s", err, events)
		}

		// Each change of an annotation triggers a reconcile.
		in, name := o.object(namespace)
		objects := dynamicClient(t).Resource(v1alpha1.SchemeGroupVersion.WithResource(o.name + "s")).Namespace(in)
		for i := range 100 {
			touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, i)
			if _, err := objects.Patch(t.Context(), name, types.MergePatchType, touch, metav1.PatchOptions{}); err != nil {
				t.Fatalf("annotating %s %s: %v", o.name, name, err)
			}
		}
		shared.CreateApp(t, namespace, "last", smallest())
		shared.AppIn(t, namespace, "last", v1alpha1.AppReady)
		for _, request := range requests()[len(made):] {
			if !strings.HasSuffix(request, "/last") {
				t.Errorf("a no-op reconcile sent the request %s", request)
			}
		}
	})
}

func TestRestartCostsOnlyReadsOfSecrets(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	first := framework.Launch(t, p.Cluster)
	var want []string
	for _, o := range owners {
		namespace := "of-" + o.name
		want = append(want, o.restart(namespace)...)
		if _, err := p.Kubectl(t.Context(), "", "create", "namespace", namespace); err != nil {
			t.Fatal(err)
		}
		createEverything(t, o, p, namespace)
	}
	first.Terminate()
	about := func(r framework.Request) bool {
		return (strings.HasPrefix(r.ObjectRef.Namespace, "of-") || strings.HasPrefix(r.ObjectRef.Name, "of-")) &&
			r.Verb != "watch"
	}
	before := controllerRequests(t, p.Cluster, about)
	second := framework.Launch(t, p.Cluster)
	for _, o := range owners {
		reconciled := regexp.MustCompile(`controller_runtime_reconcile_total\{controller="` + o.name +
			`",result="requeue_after"\} [1-9]`)
		framework.Eventually(t, o.name+" to be reconciled", func(context.Context) (bool, error) {
			return reconciled.MatchString(second.Get(t, "/metrics")), nil
		})
	}
	second.Terminate()
	// Objects are reconciled in any order.
	inAnyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	diff := cmp.Diff(want, controllerRequests(t, p.Cluster, about)[len(before):], inAnyOrder, cmpopts.EquateEmpty())
	if diff != "" {
		t.Errorf("requests after a restart (-want +got):\n%s", diff)
	}
}
