//go:build integration

package sharding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// drifters is the number of goroutines that write at the same time. A single goroutine would be too slow while the API
// server and the replicas are busy.
const drifters = 4

// drifted is the label of a child that drift changes.
const drifted = "app.kubernetes.io/name"

// drift sends the number of writes in -sharding.writes, spread over -sharding.duration. Each write changes or deletes a
// child of an App. drift ends early if the test ends.
func (s *sharded) drift(t *testing.T) {
	next := time.NewTicker(*duration / time.Duration(*drifts))
	defer next.Stop()
	var begun, made atomic.Int64
	var writers sync.WaitGroup
	for range drifters {
		writers.Go(func() {
			for made.Load() < int64(*drifts) {
				select {
				case <-t.Context().Done():
					return
				case <-next.C:
				}
				err := s.spoil(context.Background(), begun.Add(1))
				if apierrors.IsNotFound(err) {
					continue // the operator has not created the child again yet
				}
				if err != nil {
					t.Errorf("changing a child: %v", err)
					return
				}
				made.Add(1)
			}
		})
	}
	writers.Wait()
	t.Logf("%d writes to children were made", made.Load())
}

// spoil changes or deletes a child of an App.
func (s *sharded) spoil(ctx context.Context, number int64) (err error) {
	random := rand.New(rand.NewPCG(3, uint64(number)))
	tenant := s.tenants[random.IntN(len(s.tenants))]
	change := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"drift-%d"}}}`, drifted, number)
	switch random.IntN(6) {
	case 0:
		return s.Kube.AppsV1().Deployments(tenant).Delete(ctx, "web", metav1.DeleteOptions{})
	case 1:
		return s.Kube.CoreV1().Services(tenant).Delete(ctx, "web", metav1.DeleteOptions{})
	case 2, 3:
		_, err = s.Kube.AppsV1().Deployments(tenant).Patch(ctx, "web", types.MergePatchType, change, metav1.PatchOptions{})
	default:
		_, err = s.Kube.CoreV1().Services(tenant).Patch(ctx, "web", types.MergePatchType, change, metav1.PatchOptions{})
	}
	return err
}

// createAts creates Ats that become due one after another while replicas are disturbed.
func (s *sharded) createAts(t *testing.T) {
	t.Helper()
	start := time.Now()
	for i := range *ats {
		due := start.Add(*duration * time.Duration(i) / time.Duration(*ats))
		_, err := s.Windlass.CnatV1().Ats(s.tenants[i%len(s.tenants)]).Create(t.Context(), &cnatv1.At{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("at-%d", i)},
			Spec:       cnatv1.AtSpec{Schedule: due.UTC().Format(time.RFC3339), Command: []string{"echo", "Hello"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("creating an At: %v", err)
		}
	}
}
