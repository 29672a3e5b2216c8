//go:build integration

package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// What one tenant may add to the memory of each replica, in bytes. The objects that the test
// below creates took 709 MiB and 441 MiB of it.
const (
	heapOfATenant = 64 << 20
	rssOfATenant  = 256 << 20
)

// megabyte is a text of a million bytes, in parts that the schemas allow.
func megabyte() []string {
	parts := []string{}
	for left := 1_000_000; left > 0; left -= 100_000 {
		parts = append(parts, strings.Repeat("x", 100_000))
	}
	return parts
}

// fillCaches creates what is large and what operators cache: Ats, and Secrets and ConfigMaps that
// bear the operator's label. Every third of those claims to belong to an App.
func fillCaches(t *testing.T, tenant *place.Tenant) {
	t.Helper()
	create := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		_, err := tenant.Windlass.CnatV1().Ats(tenant.Namespace).Create(t.Context(), &cnatv1.At{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%02d", i)},
			Spec:       cnatv1.AtSpec{Schedule: "2099-01-01T00:00:00Z", Command: megabyte()},
		}, metav1.CreateOptions{})
		create(err)
	}
	text := strings.Join(megabyte(), "")
	for i := range 300 {
		object := metav1.ObjectMeta{Name: fmt.Sprintf("labelled-%03d", i), Labels: map[string]string{"app.kubernetes.io/managed-by": "windlass"}}
		if i%3 == 0 {
			object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "windlass.dev/v1alpha1", Kind: "App", Name: "none", UID: "none", Controller: ptr.To(true)}}
		}
		_, err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: object, StringData: map[string]string{"key": text}}, metav1.CreateOptions{})
		create(err)
		if i < 100 {
			_, err = tenant.Kube.CoreV1().ConfigMaps(tenant.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: object, Data: map[string]string{"key": text}}, metav1.CreateOptions{})
			create(err)
		}
	}
}

func TestATenantDoesNotFillTheCaches(t *testing.T) {
	t.Parallel()
	p := place.Own(t)
	leader := place.Launch(t, p.Cluster, "--pprof")
	canary(t, p) // which waits until it leads
	standBy := func() *place.Process {
		return place.Launch(t, p.Cluster, "--pprof", "--webhook-url", leader.WebhookURL)
	}
	replicas := map[string]*place.Process{"leader": leader, "standby": standBy()}
	heap, rss := map[string]int64{}, map[string]int64{}
	for name, replica := range replicas {
		defer replica.Terminate()
		heap[name], rss[name] = replica.Heap(t), replica.PeakRSS(t)
	}
	tenant := p.NewTenant(t)
	fillCaches(t, tenant)
	ats := tenant.Windlass.CnatV1().Ats(tenant.Namespace)
	refused := func(ctx context.Context, name string) bool {
		at, err := ats.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return world.Reason(at, "Stalled") == "NamespaceBudgetExceeded"
	}
	// The last ones exceed the budget: fewer than ten of a megabyte fit.
	for i := 10; i < 40; i++ {
		world.Eventually(t, "an At beyond the budget to say so", func(ctx context.Context) (bool, error) {
			return refused(ctx, fmt.Sprintf("large-%02d", i)), nil
		})
	}
	canary(t, p)
	// A replica that starts now reads all of it.
	replicas["late"] = standBy()
	defer replicas["late"].Terminate()
	heap["late"], rss["late"] = heap["standby"], rss["standby"]
	for name, replica := range replicas {
		moreHeap, moreRSS := replica.Heap(t)-heap[name], replica.PeakRSS(t)-rss[name]
		t.Logf("%s: %d MiB more heap, %d MiB more RSS at the peak", name, moreHeap>>20, moreRSS>>20)
		if moreHeap > heapOfATenant || moreRSS > rssOfATenant {
			t.Errorf("the objects of a tenant take %d MiB of the heap and %d MiB of RSS of the %s", moreHeap>>20, moreRSS>>20, name)
		}
	}
	// Those that did not fit go on once the others are gone, without a change of their own.
	for i := range 38 {
		if err := ats.Delete(t.Context(), fmt.Sprintf("large-%02d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := metav1.ListOptions{}
	if err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, all); err != nil {
		t.Fatal(err)
	}
	if err := tenant.Kube.CoreV1().ConfigMaps(tenant.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, all); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, "the remaining Ats to go on", func(ctx context.Context) (bool, error) {
		leader.Heap(t) // collects garbage, which is what the budget counts by
		return !refused(ctx, "large-38") && !refused(ctx, "large-39"), nil
	})
}
