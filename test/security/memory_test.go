//go:build integration

package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// The memory that one tenant may add to each replica, in bytes.
const (
	heapOfATenant = 64 << 20
	rssOfATenant  = 256 << 20
)

// megabyte returns strings of a million bytes in total. The schemas allow the length of each string.
func megabyte() []string {
	parts := []string{}
	for left := 1_000_000; left > 0; left -= 100_000 {
		parts = append(parts, strings.Repeat("x", 100_000))
	}
	return parts
}

// largeAts is the number of Ats that fillCaches creates.
const largeAts = 20

// fillCaches creates large objects that the operator caches: Ats, and Secrets and ConfigMaps that have the operator's
// label. Every third Secret and ConfigMap has an owner reference to an App that does not exist.
func fillCaches(t *testing.T, tenant *framework.Tenant) {
	t.Helper()
	create := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range largeAts {
		_, err := tenant.Windlass.CnatV1().Ats(tenant.Namespace).Create(t.Context(), &cnatv1.At{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%02d", i)},
			Spec:       cnatv1.AtSpec{Schedule: "2099-01-01T00:00:00Z", Command: megabyte()},
		}, metav1.CreateOptions{})
		create(err)
	}
	text := strings.Join(megabyte(), "")
	for i := range 120 {
		object := metav1.ObjectMeta{
			Name: fmt.Sprintf("labelled-%03d", i), Labels: map[string]string{"app.kubernetes.io/managed-by": "windlass"},
		}
		if i%3 == 0 {
			object.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "windlass.dev/v1alpha1", Kind: "App", Name: "none", UID: "none", Controller: ptr.To(true)},
			}
		}
		_, err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: object, StringData: map[string]string{"key": text},
		}, metav1.CreateOptions{})
		create(err)
		if i < 40 {
			_, err = tenant.Kube.CoreV1().ConfigMaps(tenant.Namespace).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: object, Data: map[string]string{"key": text},
			}, metav1.CreateOptions{})
			create(err)
		}
	}
}

func TestTenantCannotFillCaches(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	leader := framework.Launch(t, p.Cluster, "--pprof")
	canary(t, p) // waits until the process leads
	standBy := func() *framework.Process {
		return framework.Launch(t, p.Cluster, "--pprof", "--webhook-url", leader.WebhookURL)
	}
	replicas := map[string]*framework.Process{"leader": leader, "standby": standBy()}
	heap, rss := map[string]int64{}, map[string]int64{}
	for name, replica := range replicas {
		defer replica.Terminate()
		heap[name], rss[name] = replica.Heap(t), replica.PeakRSS(t)
	}
	tenant := p.NewTenant(t)
	fillCaches(t, tenant)
	ats := tenant.Windlass.CnatV1().Ats(tenant.Namespace)
	rejected := func(ctx context.Context, name string) bool {
		at, err := ats.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return framework.Reason(at, "Stalled") == "NamespaceBudgetExceeded"
	}
	// The budget is smaller than ten of these Ats.
	for i := 10; i < largeAts; i++ {
		framework.Eventually(t, "an At that exceeds the budget to report the reason NamespaceBudgetExceeded",
			func(ctx context.Context) (bool, error) {
				return rejected(ctx, fmt.Sprintf("large-%02d", i)), nil
			})
	}
	canary(t, p)
	// A replica that starts now reads all these objects.
	replicas["late"] = standBy()
	defer replicas["late"].Terminate()
	heap["late"], rss["late"] = heap["standby"], rss["standby"]
	for name, replica := range replicas {
		moreHeap, moreRSS := replica.Heap(t)-heap[name], replica.PeakRSS(t)-rss[name]
		t.Logf("%s: %d MiB more heap, %d MiB more RSS at the peak", name, moreHeap>>20, moreRSS>>20)
		if moreHeap > heapOfATenant || moreRSS > rssOfATenant {
			t.Errorf("the objects of a tenant take %d MiB of heap and %d MiB of RSS in the %s replica", moreHeap>>20,
				moreRSS>>20, name)
		}
	}
	// After the other objects are deleted, the operator reconciles the Ats that exceeded the budget, although these Ats
	// have not changed.
	for i := range largeAts - 2 {
		if err := ats.Delete(t.Context(), fmt.Sprintf("large-%02d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := metav1.ListOptions{}
	if err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		all); err != nil {
		t.Fatal(err)
	}
	if err := tenant.Kube.CoreV1().ConfigMaps(tenant.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		all); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the remaining Ats to fit into the budget", func(ctx context.Context) (bool, error) {
		leader.Heap(t) // runs the garbage collector; an object counts against the budget until it is collected
		return !rejected(ctx, fmt.Sprintf("large-%02d", largeAts-2)) &&
			!rejected(ctx, fmt.Sprintf("large-%02d", largeAts-1)), nil
	})
}
