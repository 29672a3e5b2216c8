//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// restarts and population of the test that kills the controller.
const (
	restarts   = 50
	population = 100
)

// podsMade counts the Pods that were created of each name. The answer to a create
// may have been lost with its sender, but the Pod was made all the same.
func podsMade(t *testing.T, c *cluster.Cluster) map[string]int {
	t.Helper()
	refused := func(code int) bool { return code >= 400 }
	made, err := c.Requests(func(r cluster.Request) bool {
		return r.Verb == "create" && r.ObjectRef.Resource == "pods" && r.ObjectRef.Subresource == "" && !refused(r.ResponseStatus.Code)
	})
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	counts := map[string]int{}
	for _, r := range made {
		counts[r.ObjectRef.Name]++
	}
	return counts
}

// populate creates n Ats from number first on, which become due one after another
// over some time.
func populate(t *testing.T, c *place.Place, first, n int, over time.Duration) {
	t.Helper()
	start := time.Now()
	for i := first; i < first+n; i++ {
		due := start.Add(over * time.Duration(i-first) / time.Duration(n))
		_, err := c.Windlass.CnatV1().Ats("default").Create(t.Context(), &v1.At{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("at-%03d", i)},
			Spec:       v1.AtSpec{Schedule: due.UTC().Format(time.RFC3339), Command: []string{"echo", "Hello"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("creating an At: %v", err)
		}
	}
}

// allDone waits until every At is Done, and fails if a command ran not once.
func allDone(t *testing.T, c *place.Place) {
	t.Helper()
	world.Eventually(t, "every At to be Done", func(ctx context.Context) (bool, error) {
		ats, err := c.Windlass.CnatV1().Ats("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil // the API server may be away
		}
		for i := range ats.Items {
			if ats.Items[i].Status.Phase != v1.AtDone {
				return false, nil
			}
		}
		return len(ats.Items) == population, nil
	})
	pods, err := c.Kube.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != population {
		t.Errorf("there are %d Pods for %d Ats: %v", len(pods.Items), population, err)
	}
	for name, times := range podsMade(t, c.Cluster) {
		if times > 1 {
			t.Errorf("Pod %s was made %d times", name, times)
		}
	}
}

func TestAControllerThatIsKilledRunsNothingTwice(t *testing.T) {
	t.Parallel()
	c := ownPlace(t)
	random := rand.New(rand.NewPCG(1, 2))
	const each = population / restarts
	for round := range restarts {
		populate(t, c, round*each, each, 0)
		before := len(controllerRequests(t, c.Cluster))
		p := place.Launch(t, c.Cluster, "--leader-elect=false")
		// The moment is one of progress, not of time: after so many more requests
		// of the three that each of the new Ats takes.
		more := 1 + random.IntN(3*each)
		world.Eventually(t, "the controller to go on", func(context.Context) (bool, error) {
			return len(controllerRequests(t, c.Cluster)) >= before+more, nil
		})
		p.Kill()
	}
	p := place.Launch(t, c.Cluster, "--leader-elect=false")
	defer p.Terminate()
	allDone(t, c)
}

func TestTheControllerOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	c := ownPlace(t)
	p := place.Launch(t, c.Cluster)
	defer p.Terminate()
	populate(t, c, 0, population, 15*time.Second)
	for _, step := range []func() error{
		func() error { return c.Kill("kube-apiserver") },
		func() error { return c.StartComponent("kube-apiserver") },
		c.Compact,
		func() error { return c.Kill("kube-apiserver") },
		c.Compact, // under the watches, which resume too far back
		func() error { return c.StartComponent("kube-apiserver") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	allDone(t, c)
}
