//go:build integration

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// crowd is the number of Ats that are due at one instant. workers is the controller's default number of
// concurrent reconciles.
const (
	crowd   = 500
	workers = 10
)

// TestAtsDueTogetherRunOnceEach does not run in parallel with other tests, because it measures time.
func TestAtsDueTogetherRunOnceEach(t *testing.T) {
	c := ownPlace(t)
	p := place.Launch(t, c.Cluster)
	defer p.Terminate()
	due := createCrowd(t, c)
	var ats *v1.AtList
	world.Eventually(t, "every At to be Done", func(ctx context.Context) (_ bool, err error) {
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
	last, floor := lastPod(t, c.Cluster).Sub(due), bareClient(t, c.Cluster)
	t.Logf("the last of %d Pods was created %v after the schedule, which is %.2f times the %v that a bare client takes", crowd, last, last.Seconds()/floor.Seconds(), floor)
}

// createCrowd creates Ats that are due at one instant. It measures the creation in a dry run, to select an instant
// that is later than the creation of the last At.
func createCrowd(t *testing.T, c *place.Place) (due time.Time) {
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
	due = time.Now().Add(5*time.Second + 5*takes).Truncate(time.Second)
	create(due, metav1.CreateOptions{})
	if !time.Now().Before(due) {
		t.Fatal("some Ats were created after their schedule: this machine is too busy for a measurement")
	}
	return due
}

// inParallel calls do for each number below crowd, in as many goroutines as workers.
func inParallel(t *testing.T, do func(ctx context.Context, i int) error) {
	t.Helper()
	numbers := make(chan int)
	var clients sync.WaitGroup
	for range workers {
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

// lastPod returns the time of the API server's response to the controller's last request to create a Pod.
func lastPod(t *testing.T, c *cluster.Cluster) time.Time {
	t.Helper()
	created, err := c.Requests(func(r cluster.Request) bool {
		return r.User.Username == controllerUser && r.Verb == "create" && r.ObjectRef.Resource == "pods"
	})
	if err != nil || len(created) == 0 {
		t.Fatalf("reading the audit log: %d Pods, %v", len(created), err)
	}
	return created[len(created)-1].StageTimestamp
}

// bareClient creates as many Pods as there are Ats, like the Pods of the Ats, and sends no other writes. It returns
// how long the creation took.
func bareClient(t *testing.T, c *cluster.Cluster) time.Duration {
	t.Helper()
	config := c.Config()
	config.ContentConfig = rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pods := kube.CoreV1().Pods("default")
	pattern := podLike(t, pods, "at-000-pod")
	begun := time.Now()
	inParallel(t, func(ctx context.Context, i int) error {
		pod := pattern.DeepCopy()
		pod.Name = fmt.Sprintf("bare-%03d", i)
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	return time.Since(begun)
}

// podLike returns a new Pod with the labels, annotations, owner references and command of an existing Pod.
func podLike(t *testing.T, pods corev1client.PodInterface, name string) *corev1.Pod {
	t.Helper()
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("getting Pod %s: %v", name, err)
	}
	container := pod.Spec.Containers[0]
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences},
		Spec: corev1.PodSpec{
			RestartPolicy: pod.Spec.RestartPolicy,
			Containers:    []corev1.Container{{Name: container.Name, Image: container.Image, Command: container.Command}},
		},
	}
}
