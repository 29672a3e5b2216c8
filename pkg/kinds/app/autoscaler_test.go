package app

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	autoscalerNoted = "HorizontalPodAutoscaler theirs scales Deployment web. The operator leaves the number of Pods to " +
		"it, and spec.replicas of App web has no effect."
	autoscalerAdvice = autoscalerNoted + " To let HorizontalPodAutoscaler theirs scale the App instead, first set " +
		"spec.replicas of the App to the number of Pods of the Deployment, so that no Pod ends. Then set " +
		"spec.scaleTargetRef of HorizontalPodAutoscaler theirs to " + targetApp
	targetApp = `{"apiVersion":"windlass.dev/v1alpha1","kind":"App","name":"web"}.`
)

// theirAutoscaler returns a HorizontalPodAutoscaler of somebody else. Its target is an API version, a kind and a name,
// separated by spaces.
func theirAutoscaler(target string) *autoscalingv2.HorizontalPodAutoscaler {
	parts := strings.Split(target, " ")
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: parts[0], Kind: parts[1], Name: parts[2]},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 9,
		},
	}
}

// threePods returns an App with three replicas.
func threePods(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](3) }

// scale changes the number of replicas of the Deployment, and rolls it out.
func (f fixture) scale(replicas int32) {
	f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	f.rollOut()
}

func TestReplicasThatOthersSet(t *testing.T) {
	for name, c := range map[string]struct {
		autoscaler *autoscalingv2.HorizontalPodAutoscaler
		spec, live int32
		want       int32 // the number of replicas after the reconcile
	}{
		"a number that an autoscaler sets stays":                {theirAutoscaler("apps/v1 Deployment web"), 3, 5, 5},
		"an autoscaler can have an older version":               {theirAutoscaler("apps/v1beta2 Deployment web"), 3, 5, 5},
		"a number without an autoscaler is changed back":        {nil, 3, 5, 3},
		"an autoscaler of another Deployment changes nothing":   {theirAutoscaler("apps/v1 Deployment other"), 3, 5, 3},
		"an autoscaler of another kind changes nothing":         {theirAutoscaler("apps/v1 StatefulSet web"), 3, 5, 3},
		"an autoscaler of another API group changes nothing":    {theirAutoscaler("theirs/v1 Deployment web"), 3, 5, 3},
		"an autoscaler with an invalid version changes nothing": {theirAutoscaler("a/b/c Deployment web"), 3, 5, 3},
		"an autoscaler that is being deleted changes nothing":   {deleted("apps/v1 Deployment web"), 3, 5, 3},
		"an App without Pods stays without Pods":                {theirAutoscaler("apps/v1 Deployment web"), 0, 5, 0},
		"a Deployment that is scaled to 0 is scaled up again":   {theirAutoscaler("apps/v1 Deployment web"), 3, 0, 3},
		"a Deployment that KEDA scales to 0 stays at 0":         {ofKEDA("apps/v1 Deployment web"), 3, 0, 0},
		"an autoscaler with the minimum 0 may set 0":            {withMinimumZero("apps/v1 Deployment web"), 3, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, func(app *v1alpha1.App) { app.Spec.Replicas = &c.spec })
			if c.autoscaler != nil {
				f.Store(c.autoscaler)
			}
			f.scale(c.live)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "replicas", c.want, *f.deployment().Spec.Replicas)
		})
	}
}

// deleted returns theirAutoscaler while it is being deleted.
func deleted(target string) *autoscalingv2.HorizontalPodAutoscaler {
	autoscaler := theirAutoscaler(target)
	autoscaler.DeletionTimestamp, autoscaler.Finalizers = ptr.To(metav1.Now()), []string{"example.com/theirs"}
	return autoscaler
}

// withMinimumZero returns theirAutoscaler with a minimum of 0 Pods.
func withMinimumZero(target string) *autoscalingv2.HorizontalPodAutoscaler {
	autoscaler := theirAutoscaler(target)
	autoscaler.Spec.MinReplicas = ptr.To[int32](0)
	return autoscaler
}

// ofKEDA returns theirAutoscaler as KEDA creates it.
func ofKEDA(target string) *autoscalingv2.HorizontalPodAutoscaler {
	autoscaler := theirAutoscaler(target)
	autoscaler.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "theirs", UID: "keda", Controller: ptr.To(true),
	}}
	return autoscaler
}

func TestAdviceAboutAutoscalerNamesWhatSetsItsTarget(t *testing.T) {
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
	app, ofPlatform := example(), example()
	ofPlatform.OwnerReferences = owner("Platform", "shop")
	scaler := theirAutoscaler("apps/v1 Deployment web")
	ofKEDA := scaler.DeepCopy()
	ofKEDA.OwnerReferences = owner("ScaledObject", "queue")
	controllertest.Equal(t, "advice", autoscalerAdvice, autoscalerNote(app, scaler).Message)
	controllertest.Equal(t, "advice in a Platform", autoscalerNoted, autoscalerNote(ofPlatform, scaler).Message)
	for _, words := range []string{"To let ScaledObject queue scale the App", "scaleTargetRef of ScaledObject queue to"} {
		if message := autoscalerNote(app, ofKEDA).Message; !strings.Contains(message, words) {
			t.Errorf("the advice does not contain %q: %s", words, message)
		}
	}
}

// TestAppYieldsToAutoscalerOfOthers follows an App from the first change of an autoscaler to its removal.
func TestAppYieldsToAutoscalerOfOthers(t *testing.T) {
	f := readyFixture(t, threePods)
	f.Store(theirAutoscaler("apps/v1 Deployment web"))
	f.scale(5)
	first := f.Reconcile()
	writes := []string{patchDeployment, updateStatus}
	controllertest.Equal(t, "writes when the autoscaler scales up first", writes, first.Writes)
	controllertest.Equal(t, "events", []string{"Warning ReplicasIgnored default/web: " + autoscalerAdvice}, first.Events)
	for _, replicas := range []int32{3, 9, 4} {
		f.scale(replicas)
		r := f.Reconcile()
		controllertest.Equal(t, "writes when the autoscaler scales again", []string{updateStatus}, r.Writes)
		controllertest.Equal(t, "events", nil, r.Events)
		controllertest.Equal(t, "time of the next reconcile", time.Minute, r.Result.RequeueAfter)
		controllertest.Equal(t, "replicas", replicas, *f.deployment().Spec.Replicas)
		controllertest.Equal(t, "replicas in the status", replicas, f.Object().Status.Replicas)
		ready := conditions.Find(f.Object().Status.Conditions, conditions.Ready)
		controllertest.Equal(t, "message", "The newest Pods are rolled out and available. "+autoscalerAdvice, ready.Message)
		controllertest.Equal(t, "reason", "Available", ready.Reason)
		controllertest.Equal(t, "writes at rest", nil, f.Reconcile().Writes)
	}
	f.Change(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](7) })
	controllertest.Equal(t, "writes when the App changes", []string{updateStatus}, f.Reconcile().Writes)
	controllertest.Equal(t, "replicas", 4, *f.deployment().Spec.Replicas)
	f.Remove(theirAutoscaler("apps/v1 Deployment web"))
	controllertest.Equal(t, "writes after the autoscaler is gone", writes, f.Reconcile().Writes)
	controllertest.Equal(t, "replicas", 7, *f.deployment().Spec.Replicas)
	f.rollOut()
	f.Reconcile()
	ready := conditions.Find(f.Object().Status.Conditions, conditions.Ready)
	controllertest.Equal(t, "message", "The newest Pods are rolled out and available.", ready.Message)
}

func TestAppStaysReadyWhileAutoscalerOfOthersScalesUp(t *testing.T) {
	f := readyFixture(t, threePods)
	f.Store(theirAutoscaler("apps/v1 Deployment web"))
	f.scale(5)
	f.Reconcile()
	f.rollOut()
	f.changeDeployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 })
	f.Reconcile()
	controllertest.Equal(t, "phase with the minimum of the autoscaler", v1alpha1.AppReady, f.Object().Status.Phase)
	f.changeDeployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 })
	f.Reconcile()
	controllertest.Equal(t, "phase with fewer Pods", v1alpha1.AppDeploying, f.Object().Status.Phase)
}

// TestAutoscalersAreListedOnlyForForeignReplicas checks that the operator lists autoscalers neither for an App at rest
// nor after a change of its spec.
func TestAutoscalersAreListedOnlyForForeignReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(fixture)
		want bool
	}{
		"nothing changes": {func(fixture) {}, false},
		"the App is scaled": {func(f fixture) {
			f.Change(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](4) })
		}, false},
		"somebody scales the Deployment": {func(f fixture) { f.scale(5) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, threePods)
			f.Restart()
			c.act(f)
			f.Kube.ClearActions()
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			listed := slices.ContainsFunc(f.Kube.Actions(), func(action clienttesting.Action) bool {
				return action.Matches("list", "horizontalpodautoscalers")
			})
			controllertest.Equal(t, "list of autoscalers", c.want, listed)
		})
	}
}

func TestReplicasStayIfAutoscalersCannotBeListed(t *testing.T) {
	f := readyFixture(t, threePods)
	f.scale(5)
	f.Kube.PrependReactor("list", "horizontalpodautoscalers", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no response")
	})
	r := f.Reconcile()
	controllertest.ErrorContains(t, "listing the HorizontalPodAutoscalers in namespace default: no response", r.Err)
	controllertest.Equal(t, "replicas", 5, *f.deployment().Spec.Replicas)
}

// TestAppNamesAutoscalerWithoutMetrics reconciles an App while its own HorizontalPodAutoscaler gets no metrics.
func TestAppNamesAutoscalerWithoutMetrics(t *testing.T) {
	f := readyFixture(t, withAllChildren)
	since := f.Clock.Now().Truncate(time.Second)
	f.Clock.SetTime(since)
	report := func(status corev1.ConditionStatus, message string) {
		kindtest.Change(f.Cluster, "default", "web", func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
				Type: autoscalingv2.ScalingActive, Status: status, Reason: "FailedGetResourceMetric", Message: message,
				LastTransitionTime: metav1.NewTime(since),
			}}
		})
	}
	report(corev1.ConditionFalse, "no metrics of Pod web-1-a")
	r := f.Reconcile()
	controllertest.Equal(t, "writes while the metrics may still come", nil, r.Writes)
	controllertest.Equal(t, "next reconcile", 5*time.Minute, r.Result.RequeueAfter)
	f.Clock.SetTime(since.Add(5 * time.Minute))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "condition", "True Available: The newest Pods are rolled out and available. "+
		"HorizontalPodAutoscaler web has not been able to scale the App since "+since.UTC().Format(time.RFC3339)+
		", for the reason FailedGetResourceMetric. See `kubectl describe hpa -n default web`. For metrics of CPU and "+
		"memory, the cluster needs metrics-server, and for other metrics an adapter.", f.ready())
	report(corev1.ConditionFalse, "no metrics of Pod web-1-b")
	controllertest.Equal(t, "writes for another message", nil, f.Reconcile().Writes)
	report(corev1.ConditionTrue, "")
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "condition with metrics",
		"True Available: The newest Pods are rolled out and available.", f.ready())
}
