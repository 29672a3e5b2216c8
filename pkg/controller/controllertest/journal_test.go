package controllertest_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version}}
}

func TestJournalDescribesWrites(t *testing.T) {
	ctx := context.Background()
	for name, test := range map[string]struct {
		write func(client *fake.Clientset) error
		want  string
	}{
		"a create": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Pods("default").Create(ctx, pod("new", ""), metav1.CreateOptions{})
				return err
			}, "create pods default/new",
		},
		"a create without a namespace": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: "new"},
				}, metav1.CreateOptions{})
				return err
			}, "create namespaces new",
		},
		"an update": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Pods("default").Update(ctx, pod("old", "7"), metav1.UpdateOptions{})
				return err
			}, "update pods default/old",
		},
		"an update without a resource version": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Pods("default").Update(ctx, pod("old", ""), metav1.UpdateOptions{})
				return err
			}, "update pods default/old without precondition",
		},
		"an update of a status": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Pods("default").UpdateStatus(ctx, pod("old", "7"), metav1.UpdateOptions{})
				return err
			}, "update pods/status default/old",
		},
		"a patch of one version": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Pods("default").Patch(ctx, "old", types.MergePatchType,
					[]byte(`{"metadata":{"resourceVersion":"7"}}`), metav1.PatchOptions{})
				return err
			}, "patch pods default/old",
		},
		"a patch without a precondition": {
			func(client *fake.Clientset) error {
				_, err := client.CoreV1().Pods("default").Patch(ctx, "old", types.MergePatchType,
					[]byte(`{"metadata":{"labels":{}}}`), metav1.PatchOptions{})
				return err
			}, "patch pods default/old without precondition",
		},
		"a deletion of one object": {
			func(client *fake.Clientset) error {
				return client.CoreV1().Pods("default").Delete(ctx, "old", metav1.DeleteOptions{
					Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("u"))},
				})
			}, "delete pods default/old",
		},
		"a deletion without a precondition": {
			func(client *fake.Clientset) error {
				return client.CoreV1().Pods("default").Delete(ctx, "old", metav1.DeleteOptions{})
			}, "delete pods default/old without precondition",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(pod("old", "7"))
			journal := controllertest.NewJournal(client)
			if err := test.write(client); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes", []string{test.want}, journal.Writes())
		})
	}
}

func TestJournalKeepsOrderAcrossClients(t *testing.T) {
	ctx := context.Background()
	one, two := fake.NewClientset(), fake.NewClientset()
	journal := controllertest.NewJournal(one, two)
	for _, name := range []string{"a", "b"} {
		for _, client := range []*fake.Clientset{one, two} {
			if _, err := client.CoreV1().Pods("default").Create(ctx, pod(name, ""), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	controllertest.Equal(t, "writes", []string{
		"create pods default/a", "create pods default/a", "create pods default/b", "create pods default/b",
	}, journal.Writes())
	if got, ok := journal.Object("create pods default/b").(*corev1.Pod); !ok || got.Name != "b" {
		t.Errorf("the object of the write is %v", got)
	}
	if got := journal.Object("create pods default/c"); got != nil {
		t.Errorf("a write that was not made has the object %v", got)
	}
}

func TestJournalRecordsReads(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset(pod("a", "7"))
	journal := controllertest.NewJournal(client)
	for _, name := range []string{"a", "missing"} {
		_, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if (err != nil) != (name == "missing") {
			t.Errorf("reading Pod %s: %v", name, err)
		}
	}
	if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	controllertest.Equal(t, "reads", []string{"get pods default/a", "get pods default/missing"}, journal.Reads())
	controllertest.Equal(t, "writes", nil, journal.Writes())
}

func TestJournalFailsTheNextRequest(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset(pod("a", "7"))
	journal := controllertest.NewJournal(client)
	broken := errors.New("broken")
	journal.FailNext("update", "pods/status", broken)
	update := func() error {
		_, err := client.CoreV1().Pods("default").UpdateStatus(ctx, pod("a", "7"), metav1.UpdateOptions{})
		return err
	}
	if _, err := client.CoreV1().Pods("default").Update(ctx, pod("a", "7"), metav1.UpdateOptions{}); err != nil {
		t.Errorf("a request for something else failed: %v", err)
	}
	if err := update(); !errors.Is(err, broken) {
		t.Errorf("the request ended with: %v", err)
	}
	if err := update(); err != nil {
		t.Errorf("the request after it failed as well: %v", err)
	}
	controllertest.Equal(t, "writes", []string{
		"update pods default/a", "update pods/status default/a", "update pods/status default/a",
	}, journal.Writes())
}

func TestLoadAddsCopiesToCache(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	a := pod("a", "7")
	controllertest.Load(t, store, a, pod("b", "8"))
	got, found, err := store.GetByKey("default/a")
	if err != nil || !found || got == any(a) {
		t.Errorf("the cache holds %v (%v)", got, err)
	}
	controllertest.Equal(t, "cached", any(a), got)
	controllertest.Equal(t, "keys", 2, len(store.ListKeys()))
}

func TestDrainReconcilesQueuedKeys(t *testing.T) {
	queue := controller.NewQueue("", clock.RealClock{})
	defer queue.ShutDown()
	a, b := controller.Key{Name: "a"}, controller.Key{Name: "b"}
	queue.Add(a, controller.Background)
	broken := errors.New("broken")
	reconciles := controllertest.Drain(t, queue, func(_ context.Context, key controller.Key) (controller.Result, error) {
		if key == a {
			queue.Add(b, controller.Urgent)
			return controller.Result{RequeueAfter: 1}, nil
		}
		return controller.Result{}, broken
	})
	if len(reconciles) != 2 || reconciles[0].Key != a || reconciles[0].Result.RequeueAfter != 1 ||
		reconciles[1].Key != b || !errors.Is(reconciles[1].Err, broken) {
		t.Errorf("reconciles: %v", reconciles)
	}
	if queue.Len() != 0 {
		t.Errorf("%d keys are left", queue.Len())
	}
}
