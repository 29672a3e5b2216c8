package database

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// dryRuns counts the dry runs of creations of Pods, and responds with err.
type dryRuns struct {
	n   int
	err error
	pod *corev1.Pod // the Pod of the last dry run
}

// missingFixture returns a fixture whose Database was Ready, and whose Pod the StatefulSet controller does not create.
func missingFixture(t testing.TB) (fixture, *dryRuns) {
	t.Helper()
	f, d := readyFixture(t), &dryRuns{}
	f.Kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		controllertest.Equal(t, "dryRun", []string{metav1.DryRunAll}, create.GetCreateOptions().DryRun)
		d.n, d.pod = d.n+1, create.GetObject().(*corev1.Pod)
		return true, d.pod, d.err
	})
	f.changeStatefulSet(func(s *appsv1.StatefulSet) {
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, UpdateRevision: "shop-1"}
	})
	return f, d
}

func forbiddenPod(why string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), "shop-0", errors.New(why))
}

func TestDatabaseSaysWhyPodIsMissing(t *testing.T) {
	const (
		taken = "Pod shop-0 exists, but does not belong to StatefulSet shop, which needs a Pod of this name. See `kubectl " +
			"describe pod -n default shop-0`, and ask whoever created this Pod to use another name."
		look = "StatefulSet shop has not created Pod shop-0. For the cause, see the Events in `kubectl describe sts -n " +
			"default shop`."
		rejects   = "The API server rejected Pod shop-0: "
		forbidden = rejects + `pods "shop-0" is forbidden: `
		resources = "Set spec.resources to what the namespace allows"
		retry     = ". The operator retries within 5m0s."
		hook      = `failed calling webhook "pods.example.com": connection refused`
	)
	for name, c := range map[string]struct {
		err             error
		reason, message string
	}{
		"a quota that is used up": {forbiddenPod("exceeded quota: small, requested: pods=1"), "PodRejected",
			forbidden + `exceeded quota: small, requested: pods=1. Raise the quota, or wait until other Pods end` + retry},
		"a LimitRange whose default makes the Pod invalid": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "shop-0", field.ErrorList{
				field.Invalid(field.NewPath("spec", "containers").Index(0).Child("resources", "requests"), "1Gi",
					"must be less than or equal to memory limit of 512Mi"),
			}), "PodRejected",
			rejects + `Pod "shop-0" is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": must be ` +
				`less than or equal to memory limit of 512Mi. ` +
				resources + retry,
		},
		"a webhook that does not answer": {apierrors.NewInternalError(errors.New(hook)), "PodRejected",
			rejects + "Internal error occurred: " + hook + ". Ask the administrator of the cluster to repair the " +
				"admission webhook" + retry},
		"a policy for the StatefulSet's user": {nil, "PodMissing", look},
		"another Pod that has the name": {
			apierrors.NewAlreadyExists(corev1.Resource("pods"), "shop-0"), "PodMissing", taken,
		},
		"an operator that may not create Pods": {
			apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(`User "operator" cannot create resource "pods"`)),
			"PodMissing", look,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, d := missingFixture(t)
			d.err = c.err
			r := f.Reconcile()
			controllertest.Equal(t, "reason at first", "Starting", f.reason())
			controllertest.Equal(t, "dry runs at first", 0, d.n)
			controllertest.Equal(t, "RequeueAfter at first", missingGrace, r.Result.RequeueAfter)
			for range 2 { // after the first dry run, the StatefulSet controller may still create the Pod
				f.Clock.Step(missingGrace)
				controllertest.ErrorContains(t, "", f.Reconcile().Err)
			}
			controllertest.Equal(t, "reason", c.reason, f.reason())
			controllertest.Equal(t, "message", c.message, f.ready().Message)
			controllertest.Equal(t, "phase", v1alpha1.DatabaseFailed, f.Object().Status.Phase)
			is := f.Object().Status.Conditions
			controllertest.Equal(t, "Degraded", true, conditions.IsTrue(is, conditions.Degraded))
			controllertest.Equal(t, "Stalled", nil, conditions.Find(is, conditions.Stalled))
		})
	}
}

func TestMissingPodCostsFewDryRuns(t *testing.T) {
	f, d := missingFixture(t)
	d.err = forbiddenPod("exceeded quota: small")
	f.Reconcile()
	f.Clock.Step(missingGrace)
	for range 600 { // a reconcile each second, as after frequent events
		f.Reconcile()
		f.Clock.Step(time.Second)
	}
	if d.n > 8 { // after 10, 20, 40 … 320, 620 s
		t.Errorf("in 10 minutes there were %d dry runs", d.n)
	}
	controllertest.Equal(t, "writes at the end", nil, f.Reconcile().Writes)
}

func TestDatabaseRecoversOnceItsPodIsAccepted(t *testing.T) {
	f, d := missingFixture(t)
	d.err = forbiddenPod("exceeded quota: small")
	f.Reconcile()
	f.Clock.Step(missingGrace)
	f.Reconcile()
	controllertest.Equal(t, "reason", "PodRejected", f.reason())
	d.err = nil
	f.Clock.Step(pods.LongestRejection)
	r := f.Reconcile()
	// The first write makes the StatefulSet controller retry.
	controllertest.Equal(t, "writes", []string{patchStatefulSet, updateStatus}, r.Writes)
	controllertest.Equal(t, "reason", "Starting", f.reason())
	at := f.statefulSet().Annotations[retriedAnnotation]
	controllertest.Equal(t, "annotation", f.Clock.Now().UTC().Format(time.RFC3339), at)

	f.start()
	f.Store(f.pod("shop-1", corev1.PodStatus{}))
	f.Reconcile()
	controllertest.Equal(t, "reason", "Available", f.reason())
	controllertest.Equal(t, "annotation", at, f.statefulSet().Annotations[retriedAnnotation])
	before := d.n
	controllertest.Equal(t, "writes of the next reconcile", nil, f.Reconcile().Writes)
	controllertest.Equal(t, "dry runs of a Ready Database", before, d.n)
}

func TestMissingPodIsNotCheckedBeforeStatefulSetIsObserved(t *testing.T) {
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"its controller has never seen it": func(s *appsv1.StatefulSet) { s.Status = appsv1.StatefulSetStatus{} },
		"its newest generation is not observed": func(s *appsv1.StatefulSet) {
			s.Status.ObservedGeneration = s.Generation - 1
		},
		"only the cache lacks its Pod": func(s *appsv1.StatefulSet) { s.Status.Replicas = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			f, d := missingFixture(t)
			f.changeStatefulSet(change)
			for range 3 {
				f.Reconcile()
				f.Clock.Step(missingGrace)
			}
			controllertest.Equal(t, "dry runs", 0, d.n)
			controllertest.Equal(t, "reason", "Starting", f.reason())
		})
	}
}

func TestFailedDryRunIsAnError(t *testing.T) {
	f, d := missingFixture(t)
	d.err = apierrors.NewInternalError(errors.New("etcd is full"))
	f.Reconcile()
	f.Clock.Step(missingGrace)
	const want = "checking whether the API server accepts Pod default/shop-0: Internal error occurred: etcd is full"
	controllertest.ErrorContains(t, want, f.Reconcile().Err)
}

func TestDryRunHasPodOfStatefulSet(t *testing.T) {
	f, d := missingFixture(t)
	f.Reconcile()
	f.Clock.Step(missingGrace)
	f.Reconcile()
	template := f.statefulSet().Spec.Template
	controllertest.Equal(t, "name", "default/shop-0", d.pod.Namespace+"/"+d.pod.Name)
	controllertest.Equal(t, "containers", template.Spec.Containers, d.pod.Spec.Containers)
	controllertest.Equal(t, "hostname", "shop-0.shop", d.pod.Spec.Hostname+"."+d.pod.Spec.Subdomain)
	controllertest.Equal(t, "the StatefulSet controls it", true, metav1.IsControlledBy(d.pod, f.statefulSet()))
	for label, want := range map[string]string{
		appsv1.StatefulSetPodNameLabel: "shop-0", appsv1.PodIndexLabel: "0", appsv1.ControllerRevisionHashLabelKey: "shop-1",
		instanceLabel: "shop",
	} {
		controllertest.Equal(t, label, want, d.pod.Labels[label])
	}
	controllertest.Equal(t, "label of the template", "", f.statefulSet().Spec.Template.Labels[appsv1.PodIndexLabel])
}
