package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
)

// Patience is the timeout of every wait. It is not a performance limit: a wait that succeeds usually ends
// within seconds.
const Patience = 5 * time.Minute

// checks sets the time between two checks of a condition. The time grows: the longer a wait takes, the less a delay
// matters, and reading a custom resource costs the API server some milliseconds of CPU time.
var checks = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.25, Steps: 20, Cap: 200 * time.Millisecond}

// Clients holds the clients of a cluster.
type Clients struct {
	Kube     kubernetes.Interface
	Windlass versioned.Interface
	Gateway  gateway.Interface
}

// NewClients returns clients for the cluster that config names.
func NewClients(config *rest.Config) (*Clients, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for built-in types: %w", err)
	}
	windlass, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the kinds of Windlass: %w", err)
	}
	routes, err := gateway.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for Gateway API: %w", err)
	}
	return &Clients{Kube: kube, Windlass: windlass, Gateway: routes}, nil
}

// Eventually waits until holds returns true. It fails the test if Await returns an error. what describes the awaited
// state in the message of a failure.
func Eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := Await(t.Context(), holds); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// Await waits until holds returns true, and returns an error after Patience. Errors of the API server and of the
// connection do not end the wait: a read may fail while the server starts, is overloaded or cannot reach a webhook. Any
// other error of holds ends the wait.
func Await(ctx context.Context, holds func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var last error
	err := checks.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (ok bool, err error) {
		if ok, last = holds(ctx); isTransient(last) {
			return false, nil
		}
		return ok, last
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("%w; the last error: %w", err, last)
	}
	return err
}

// isTransient reports whether a request that failed with err may succeed when it is sent again.
func isTransient(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}

// IgnoreNotFound returns nil for a NotFound error, and any other error unchanged.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ignoreConflict returns nil for a Conflict error, so that the caller retries the update, and any other
// error unchanged.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Soon returns a schedule 8 seconds from now. Even on a busy machine, this is enough time to reconcile an At
// before its schedule.
func Soon() string { return time.Now().Add(8 * time.Second).UTC().Format(time.RFC3339) }

// NewNamespace creates a namespace for one test, and returns its name. It deletes the namespace when the test ends.
func (w *Clients) NewNamespace(t *testing.T) string {
	t.Helper()
	namespaces := w.Kube.CoreV1().Namespaces()
	namespace, err := namespaces.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := IgnoreNotFound(namespaces.Delete(context.Background(), namespace.Name,
			metav1.DeleteOptions{})); err != nil { // the test may have deleted it
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return namespace.Name
}

// Create creates an At that is due already and runs line in a shell. If change is not nil, it modifies the At before
// the creation.
func (w *Clients) Create(t *testing.T, namespace, name, line string, change func(*v1.At)) *v1.At {
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

// InPhase waits until an At has the given phase, and returns the At.
func (w *Clients) InPhase(t *testing.T, namespace, name string, phase v1.AtPhase) *v1.At {
	t.Helper()
	var at *v1.At
	Eventually(t, "At "+name+" to be "+string(phase), func(ctx context.Context) (_ bool, err error) {
		at, err = w.Windlass.CnatV1().Ats(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && at.Status.Phase == phase, err
	})
	return at
}

// Reason returns the reason of a condition if the condition is True, and "" otherwise.
func Reason(at *v1.At, condition string) string {
	if c := meta.FindStatusCondition(at.Status.Conditions, condition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}
