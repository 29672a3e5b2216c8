//go:build integration

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// crowd is the number of Ats that are due at one instant. It is far larger than the number of Ats that the operator
// reconciles at a time. creators is the number of goroutines that create the Ats.
const crowd, creators = 200, 10

func TestAtsDueTogetherRunOnceEach(t *testing.T) {
	t.Parallel()
	c := framework.Own(t)
	p := framework.Launch(t, c.Cluster)
	defer p.Terminate()
	createCrowd(t, c)
	var ats *v1.AtList
	framework.Eventually(t, "every At to be Done", func(ctx context.Context) (_ bool, err error) {
		if ats, err = c.Windlass.CnatV1().Ats("default").List(ctx, metav1.ListOptions{}); err != nil {
			return false, err
		}
		for i := range ats.Items {
			if ats.Items[i].Status.Phase != v1.AtDone {
				return false, nil
			}
		}
		return true, nil
	})
	created := podCreations(t, c.Cluster)
	for i := range ats.Items {
		if times := created[ats.Items[i].Name+"-pod"]; times != 1 {
			t.Errorf("the Pod of At %s was created %d times, want 1", ats.Items[i].Name, times)
		}
	}
	if len(created) != crowd {
		t.Errorf("%d Pods were created for %d Ats", len(created), crowd)
	}
}

// createCrowd creates Ats that are due at one instant. It measures the duration of the creation in a dry run, and
// selects an instant after the creation of the last At.
func createCrowd(t *testing.T, c *framework.Installation) {
	t.Helper()
	create := func(due time.Time, opts metav1.CreateOptions) time.Duration {
		begun := time.Now()
		inParallel(t, func(ctx context.Context, i int) error {
			_, err := c.Windlass.CnatV1().Ats("default").Create(ctx, &v1.At{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("at-%03d", i)},
				Spec:       v1.AtSpec{Schedule: due.UTC().Format(time.RFC3339), Command: []string{"echo", "Hello"}},
			}, opts)
			return err
		})
		return time.Since(begun)
	}
	takes := create(time.Now().Add(time.Hour), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	due := time.Now().Add(5*time.Second + 5*takes).Truncate(time.Second)
	create(due, metav1.CreateOptions{})
	if !time.Now().Before(due) {
		t.Fatal("some Ats were created after their schedule")
	}
}

// inParallel calls do for each number below crowd. The number of goroutines is creators.
func inParallel(t *testing.T, do func(ctx context.Context, i int) error) {
	t.Helper()
	numbers := make(chan int)
	var clients sync.WaitGroup
	for range creators {
		clients.Go(func() {
			for i := range numbers {
				if err := do(t.Context(), i); err != nil {
					t.Errorf("creating object %d: %v", i, err)
				}
			}
		})
	}
	for i := range crowd {
		numbers <- i
	}
	close(numbers)
	clients.Wait()
}
