// Package world is what tests on a real API server do there, whichever one it is.
package world

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
)

// Patience bounds every wait. It is no measure of anything: what is waited for is
// there in seconds, or a test has failed.
const Patience = 5 * time.Minute

// interval is how often a condition is looked at.
const interval = 50 * time.Millisecond

// World is a cluster, through its clients.
type World struct {
	Kube     kubernetes.Interface
	Windlass versioned.Interface
}

// New returns the world that config leads to.
func New(config *rest.Config) (*World, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	windlass, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for Windlass' own kinds: %w", err)
	}
	return &World{Kube: kube, Windlass: windlass}, nil
}

// Eventually waits until a condition holds. An error ends the wait and the test.
func Eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), interval, Patience, true, holds); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// IgnoreNotFound is an error, but for one that says that there is no such object.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ignoreConflict makes an update that came too late be tried again.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Soon is a schedule some seconds ahead, far enough for an At to be seen to before, on a machine
// that is busy.
func Soon() string { return time.Now().Add(8 * time.Second).UTC().Format(time.RFC3339) }

// NewNamespace returns the name of a namespace that is the test's own, until it
// ends.
func (w *World) NewNamespace(t *testing.T) string {
	t.Helper()
	namespaces := w.Kube.CoreV1().Namespaces()
	namespace, err := namespaces.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := IgnoreNotFound(namespaces.Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})); err != nil { // a test may have deleted it
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return namespace.Name
}

// Create creates an At whose command is run by sh as soon as it can be, after
// change has had its way with it.
func (w *World) Create(t *testing.T, namespace, name, line string, change func(*v1.At)) *v1.At {
	t.Helper()
	at := &v1.At{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.AtSpec{Schedule: "2020-01-01T00:00:00Z", Command: []string{"sh", "-c", line}},
	}
	if change != nil {
		change(at)
	}
	at, err := w.Windlass.CnatV1().Ats(namespace).Create(t.Context(), at, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating At %s/%s: %v", namespace, name, err)
	}
	return at
}

// InPhase waits for a phase and returns the At as it is then.
func (w *World) InPhase(t *testing.T, namespace, name string, phase v1.AtPhase) *v1.At {
	t.Helper()
	var at *v1.At
	Eventually(t, "At "+name+" to be "+string(phase), func(ctx context.Context) (_ bool, err error) {
		at, err = w.Windlass.CnatV1().Ats(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && at.Status.Phase == phase, err
	})
	return at
}

// Reason is that of a condition that is True, or empty.
func Reason(at *v1.At, condition string) string {
	if c := meta.FindStatusCondition(at.Status.Conditions, condition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}
