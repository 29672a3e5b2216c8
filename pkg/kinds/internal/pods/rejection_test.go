package pods_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func TestRejectedPodsNoteHasAdvice(t *testing.T) {
	note := pods.RejectedPodsNote("web", `pods "web-1-a" is forbidden: exceeded quota: small`)
	controllertest.Equal(t, "reason", "PodRejected", note.Reason)
	const want = `The API server rejects Pods of Deployment web: pods "web-1-a" is forbidden: exceeded quota: small. ` +
		"Raise the quota: a rollout needs room for one more Pod."
	controllertest.Equal(t, "message", want, note.Message)
}

func TestIsUndecided(t *testing.T) {
	pod := corev1.Resource("pods")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                   {nil, false},
		"a webhook without dry runs": {apierrors.NewBadRequest(`admission webhook "a" does not support dry run`), true},
		"a missing permission": {
			apierrors.NewForbidden(pod, "", errors.New(`User "operator" cannot create resource "pods" in API group ""`)), true,
		},
		"a quota": {apierrors.NewForbidden(pod, "shop-0", errors.New("exceeded quota: small")), false},
		"a webhook that rejects a Pod": {
			apierrors.NewBadRequest(`admission webhook "a" denied the request: does not like it`), false,
		},
		"a Pod that is invalid": {
			apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "shop-0", nil), false,
		},
		"an API server without storage": {apierrors.NewInternalError(errors.New("etcd is full")), false},
	} {
		controllertest.Equal(t, name, c.want, pods.IsUndecided(c.err))
	}
}

func TestRejectedHasAdvice(t *testing.T) {
	rejected := func(why string) error { return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New(why)) }
	for name, c := range map[string]struct{ why, advice, want string }{
		"a quota": {
			"exceeded quota: small", "", ". Raise the quota, or wait until other Pods end. The operator retries within 5m0s.",
		},
		"a policy": {
			"denied by a policy", "", ". Ask the administrator of the namespace which Pods are allowed. The operator " +
				"retries within 5m0s.",
		},
		"a LimitRange": {
			"maximum memory usage per Container is 1Gi", "", ". Set spec.resources to what the namespace allows. The " +
				"operator retries within 5m0s.",
		},
		"a webhook": {
			"failed calling webhook \"pods.example.com\": timeout", "", ". Ask the administrator of the cluster to " +
				"repair the admission webhook. The operator retries within 5m0s.",
		},
		"advice from the kind": {"violates PodSecurity", "Restrict it", ". Restrict it. The operator retries within 5m0s."},
	} {
		t.Run(name, func(t *testing.T) {
			err := pods.Rejected("web", rejected(c.why), c.advice, time.Second)
			controllertest.Equal(t, "reason", "PodRejected", controller.ReasonOf(err))
			message := err.Error()
			if !strings.HasPrefix(message, "The API server rejected Pod web: ") || !strings.HasSuffix(message, c.why+c.want) {
				t.Errorf("the message is %s", message)
			}
		})
	}
}
