//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// restarts is the number of times that a test kills the controller, and population is the number of Ats in a test.
const (
	restarts   = 50
	population = 100
)

// podCreations returns the number of successful creations of each Pod, by name. It also counts a creation whose
// response the controller did not receive because it was killed.
func podCreations(t *testing.T, c *framework.Cluster) map[string]int {
	t.Helper()
	rejected := func(code int) bool { return code >= 400 }
	created, err := c.Requests(func(r framework.Request) bool {
		return r.Verb == "create" && r.ObjectRef.Resource == "pods" && r.ObjectRef.Subresource == "" &&
			!rejected(r.ResponseStatus.Code)
	})
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	counts := map[string]int{}
	for _, r := range created {
		counts[r.ObjectRef.Name]++
	}
	return counts
}

// populate creates n Ats with the numbers from first on. The Ats become due one after another, within the duration
// over.
func populate(t *testing.T, c *framework.Installation, first, n int, over time.Duration) {
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

// waitAllDone waits until every At is Done. It fails the test unless exactly one Pod was created for each At.
func waitAllDone(t *testing.T, c *framework.Installation) {
	t.Helper()
	framework.Eventually(t, "every At to be Done", func(ctx context.Context) (bool, error) {
		ats, err := c.Windlass.CnatV1().Ats("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil // the API server may be down
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
		t.Errorf("got %d Pods for %d Ats: %v", len(pods.Items), population, err)
	}
	for name, times := range podCreations(t, c.Cluster) {
		if times > 1 {
			t.Errorf("Pod %s was created %d times, want once", name, times)
		}
	}
}

func TestKilledControllerRunsNoCommandTwice(t *testing.T) {
	t.Parallel()
	c := framework.Own(t)
	random := rand.New(rand.NewPCG(1, 2))
	const each = population / restarts
	for round := range restarts {
		populate(t, c, round*each, each, 0)
		before := len(atAndPodWrites(t, c.Cluster))
		p := framework.Launch(t, c.Cluster, "--leader-elect=false")
		// Kill the controller after a number of requests, not after a time. Each new At takes three requests.
		more := 1 + random.IntN(3*each)
		framework.Eventually(t, "the controller to send more requests", func(context.Context) (bool, error) {
			return len(atAndPodWrites(t, c.Cluster)) >= before+more, nil
		})
		p.Kill()
	}
	p := framework.Launch(t, c.Cluster, "--leader-elect=false")
	defer p.Terminate()
	waitAllDone(t, c)
}

func TestControllerSurvivesAPIServerRestarts(t *testing.T) {
	t.Parallel()
	c := framework.Own(t)
	p := framework.Launch(t, c.Cluster, "--leader-elect=false") // a leader could lose its Lease meanwhile
	populate(t, c, 0, population, 15*time.Second)
	for _, step := range []func() error{
		func() error { return c.Kill("kube-apiserver") },
		func() error { return c.StartComponent("kube-apiserver") },
		c.Compact,
		func() error { return c.Kill("kube-apiserver") },
		c.Compact, // so that the watches cannot resume
		func() error { return c.StartComponent("kube-apiserver") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	waitAllDone(t, c)
	if code := p.Terminate(); code != 0 {
		t.Errorf("the controller ended with exit code %d, want 0", code)
	}
}

func TestControllerThatLosesItsLeaseEndsAndCanStartAgain(t *testing.T) {
	t.Parallel()
	c := framework.Own(t)
	p := framework.Launch(t, c.Cluster)
	populate(t, c, 0, population, 15*time.Second)
	if err := c.Kill("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(); code != 1 || !strings.Contains(p.Log.String(), "the Lease was not renewed in time") {
		t.Errorf("the controller ended with exit code %d, and its log does not say that it lost the Lease", code)
	}
	if err := c.StartComponent("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	p = framework.Launch(t, c.Cluster) // as the kubelet does
	waitAllDone(t, c)
	if code := p.Terminate(); code != 0 {
		t.Errorf("the controller ended with exit code %d, want 0", code)
	}
}
