package at

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// rejectedCase returns the case of an At that is Stalled with this message, because the API server rejects its
// Pod with err.
func rejectedCase(at *v1.At, err error, message string) reconcileCase {
	return reconcileCase{
		at: at, startedHere: true, fail: map[string]error{"create pods": err}, err: message, writes: []string{
			createPod, updateStatus,
		},
		events:     []string{"Warning PodRejected default/example: " + message},
		conditions: stalledConditions("PodRejected", message),
	}
}

func TestReconcileReportsRejectedPod(t *testing.T) {
	const (
		security = `violates PodSecurity "restricted:latest": runAsNonRoot != true`
		quota    = "exceeded quota: small"
		policy   = "no Pods on Sundays"
		ask      = "Ask the administrator of the namespace which Pods are allowed"
		confine  = "Delete the At, and create it again with spec.restricted set to true"
		wait     = "Raise the quota, or wait until other Pods end"
	)
	message := func(why, advice string) string {
		return "The API server rejected Pod example-pod: " + why + ". " + advice + ". The operator retries within 5m0s."
	}
	forbiddenMessage := func(why, advice string) string {
		return message(`pods "example-pod" is forbidden: `+why, advice)
	}
	long := strings.Repeat("x", 1<<10)

	atQuota := rejectedCase(example(running), forbidden(quota), forbiddenMessage(quota, wait))
	atQuota.events = []string{"Normal PodRejected default/example: " + forbiddenMessage(quota, wait)}
	atQuota.conditions = progressingConditions("PodRejected", forbiddenMessage(quota, wait))
	runCases(t, map[string]reconcileCase{
		"a violation of Pod Security suggests spec.restricted": rejectedCase(example(running), forbidden(security),
			forbiddenMessage(security, confine)),
		"a violation of Pod Security by a restricted Pod " +
			"suggests no field": rejectedCase(example(running, withRestricted), forbidden(security),
			forbiddenMessage(security, ask)),
		"an At whose Pod exceeds a quota waits for room and is not Stalled": atQuota,
		"a violation of another policy is reported in the API server's words": rejectedCase(example(running),
			forbidden(policy), forbiddenMessage(policy, ask)),
		"a long message is truncated to 1 KiB": rejectedCase(example(running),
			apierrors.NewBadRequest(long+"y"), message(long+"…", ask)),
	})
}

// creates counts the requests that create Pods.
type creates struct {
	n int
	// admit makes the API server store the Pod instead of rejecting it.
	admit bool
}

// countCreates returns a counter of the requests that create Pods. The API server rejects these requests
// until admit is true.
func (f fixture) countCreates() *creates {
	c := &creates{}
	f.Kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.n++
		return !c.admit, nil, forbidden("no Pods on Sundays")
	})
	return c
}

func TestReconcileRetriesRejectedPodWithBackoff(t *testing.T) {
	f := newFixture(t, example(running))
	creates := f.countCreates()
	for range 60 { // a reconcile each second, as after frequent events
		controllertest.ErrorContains(t, "The API server rejected Pod example-pod", f.Reconcile().Err)
		f.Clock.Step(time.Second)
	}
	if creates.n > 8 { // after 0, 1, 2, 4 … 32 s
		t.Errorf("in a minute the Pod was created %d times", creates.n)
	}
	f.Clock.SetTime(noon.Add(24 * time.Hour))
	controllertest.ErrorContains(t, "The API server rejected Pod example-pod", f.Reconcile().Err)
	before := creates.n
	f.Clock.Step(pods.LongestRejection)
	creates.admit = true
	f.settle()
	controllertest.Equal(t, "creates once the Pod is admitted", 1, creates.n-before)
	f.onlyPod()
}

func TestSpecChangeRetriesRejectedPodImmediately(t *testing.T) {
	f := newFixture(t, example(running))
	creates := f.countCreates()
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			f.Change(withRestricted)
		}
		controllertest.ErrorContains(t, "The API server rejected Pod example-pod", f.Reconcile().Err)
		controllertest.Equal(t, "creates", want, creates.n)
	}
}

func TestRestrictedPodHasSecurityContext(t *testing.T) {
	pod, err := desiredPod(example(withRestricted), DefaultImage)
	controllertest.ErrorContains(t, "", err)
	controllertest.Equal(t, "security context of the Pod", &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65534), SeccompProfile: &corev1.SeccompProfile{
			Type: "RuntimeDefault",
		},
	}, pod.Spec.SecurityContext)
	controllertest.Equal(t, "security context of the container", &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, pod.Spec.Containers[0].SecurityContext)
}

func TestIsRejectionExcludesTerminatingNamespace(t *testing.T) {
	err := forbidden("the namespace is being terminated")
	controllertest.Equal(t, "a forbidden Pod is a rejection", true, pods.IsRejection(err))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		t.Fatalf("%T is not an error of the API server", err)
	}
	status.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	controllertest.Equal(t, "a Pod in a namespace that is being deleted is a rejection", false, pods.IsRejection(status))
}
