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
)

func confined(at *v1.At) { at.Spec.Restricted = ptr.To(true) }

func forbidden(why string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), "example-pod", errors.New(why))
}

func TestAStartWhosePodIsRefused(t *testing.T) {
	said := func(why, advice string) string {
		return `The API server refuses Pod example-pod: pods "example-pod" is forbidden: ` + why + ". " + advice + "; it is tried again within 5m0s."
	}
	const security, quota, policy = `violates PodSecurity "restricted:latest": runAsNonRoot != true`, "exceeded quota: small", "no Pods on Sundays"
	const ask = "Ask the administrator of the namespace which Pods it admits"
	warned := func(message string) []string { return []string{"Warning PodRefused default/example: " + message} }
	long := strings.Repeat("x", maxRefusal)
	tell(t, map[string]story{
		"by Pod Security tells to confine it": {
			at: example(running), begun: true, refuse: map[string]error{"create pods": forbidden(security)},
			err: said(security, "Set spec.restricted to true"), writes: []string{writePod, status}, status: isRunnow,
			conditions: stuck("PodRefused", said(security, "Set spec.restricted to true")),
			events:     warned(said(security, "Set spec.restricted to true")),
		},
		"by Pod Security though it is confined does not tell to": {
			at: example(running, confined), begun: true, refuse: map[string]error{"create pods": forbidden(security)},
			err: said(security, ask), writes: []string{writePod, status}, status: isRunnow,
			conditions: stuck("PodRefused", said(security, ask)), events: warned(said(security, ask)),
		},
		"by a quota waits for room": {
			at: example(running), begun: true, refuse: map[string]error{"create pods": forbidden(quota)},
			err: said(quota, "Raise the quota, or wait until other Pods have ended"), writes: []string{writePod, status}, status: isRunnow,
			conditions: notReady("PodRefused", said(quota, "Raise the quota, or wait until other Pods have ended")),
			events:     []string{"Normal PodRefused default/example: " + said(quota, "Raise the quota, or wait until other Pods have ended")},
		},
		"by a policy passes on what it said": {
			at: example(running), begun: true, refuse: map[string]error{"create pods": forbidden(policy)},
			err: said(policy, ask), writes: []string{writePod, status}, status: isRunnow,
			conditions: stuck("PodRefused", said(policy, ask)), events: warned(said(policy, ask)),
		},
		"with many words keeps the first KiB of them": {
			at: example(running), begun: true, refuse: map[string]error{"create pods": apierrors.NewBadRequest(long + "y")},
			err: "The API server refuses Pod example-pod: " + long + "…. " + ask, writes: []string{writePod, status}, status: isRunnow,
			conditions: stuck("PodRefused", "The API server refuses Pod example-pod: "+long+"…. "+ask+"; it is tried again within 5m0s."),
			events:     warned("The API server refuses Pod example-pod: " + long + "…. " + ask + "; it is tried again within 5m0s."),
		},
	})
}

func TestARefusedPodIsTriedAgainWithinBounds(t *testing.T) {
	w := newWorld(t, noon, false)
	w.put(w.cnat.Tracker(), example(running))
	posts, open := 0, false
	w.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		posts++
		return !open, nil, forbidden("no Pods on Sundays")
	})
	for range 60 { // a reconcile each second, as after frequent events
		w.deliver()
		_, _ = w.pass()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	if posts > 8 { // after 0, 1, 2, 4 … 32 s
		t.Errorf("in a minute the Pod was asked for %d times", posts)
	}
	w.clock.SetTime(noon.Add(24 * time.Hour))
	w.deliver()
	_, _ = w.pass()
	before := posts
	w.clock.SetTime(w.clock.Now().Add(longestRefusal))
	open = true
	w.settle()
	if posts != before+1 || len(w.livePods()) != 1 {
		t.Errorf("once it is admitted there are %d Pods, after %d requests", len(w.livePods()), posts-before)
	}
}

func TestAChangeOfTheSpecTriesARefusedPodAtOnce(t *testing.T) {
	w := newWorld(t, noon, false)
	at, posts := example(running), 0
	w.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		posts++
		return true, nil, forbidden("no Pods on Sundays")
	})
	w.put(w.cnat.Tracker(), at)
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			at = w.at()
			at.Generation++
			if _, err := w.cnat.CnatV1().Ats(at.Namespace).Update(t.Context(), at, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.deliver()
		_, _ = w.pass()
		controllertest.Equal(t, "requests", want, posts)
	}
}

func TestARestrictedPodIsConfined(t *testing.T) {
	pod := desiredPod(example(confined), DefaultImage)
	controllertest.Equal(t, "of the Pod", &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65534), SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"},
	}, pod.Spec.SecurityContext)
	controllertest.Equal(t, "of its container", &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, pod.Spec.Containers[0].SecurityContext)
}

func TestANamespaceThatGoesIsNoRefusal(t *testing.T) {
	err := forbidden("it is being terminated")
	if !isRefusal(err) {
		t.Error("what is forbidden is no refusal")
	}
	var status *apierrors.StatusError
	errors.As(err, &status)
	status.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if isRefusal(status) {
		t.Error("the end of a namespace is taken for a refusal")
	}
}
