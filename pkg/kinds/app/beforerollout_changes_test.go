package app

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// namedConfig names a ConfigMap or a Secret.
func namedConfig(name string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: name}
}

func TestBeforeRolloutKeepsFilesWhileTheAppWaits(t *testing.T) {
	f := rolledOutFixture(t, withFiles("1"))
	before := f.mounted()
	f.Change(func(app *v1alpha1.App) {
		withFiles("2")(app)
		app.Spec.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: namedConfig("missing")}},
		}
	})
	f.reconcile()
	if !strings.HasPrefix(f.ready(), "False DependencyMissing: ") {
		t.Errorf("the condition is %s", f.ready())
	}
	controllertest.Equal(t, "ConfigMap that the Pods mount", before, f.mounted())
	controllertest.Equal(t, "files that the Pods mount", map[string]string{"a.conf": "1"}, f.files("1").Data)
}

func TestBeforeRolloutDoesNotStartCommandOfPreviousSpec(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	controllertest.Equal(t, "writes", []string{deleteRun, updateStatus}, f.Reconcile().Writes)
	f.Reconcile() // creates the Pod of web:2 and stores its UID
	if !isGated(f.runPod()) || f.Object().Status.BeforeRolloutRuns[0].PodUID != f.runPod().UID {
		t.Fatalf("the status has %+v", f.Object().Status.BeforeRolloutRuns)
	}
	f.Change(image("web:1"))
	// The operator may die between two writes: a run without a Pod would count as failed.
	controllertest.Equal(t, "first writes for the previous spec", []string{updateStatus}, f.Reconcile().Writes)
	f.Kube.ClearActions()
	f.reconcile()
	for _, action := range f.Kube.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok && strings.Contains(string(patch.GetPatch()), runGate) {
			t.Error("the command of the previous spec runs")
		}
	}
	if f.runPod() != nil {
		t.Error("the Pod of the previous spec exists")
	}
	controllertest.Equal(t, "runs", 1, len(f.Object().Status.BeforeRolloutRuns))
	controllertest.Equal(t, "image", "web:1", f.imageOf())

	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "image after the spec is wanted again", "web:2", f.imageOf())
}

func TestBeforeRolloutStoresForgedPodWithinLimits(t *testing.T) {
	app := example(withMigration)
	forged := runPodOf(app, runID{strings.Repeat("t", 256), strings.Repeat("c", 240)})
	forged.UID, forged.ResourceVersion, forged.Spec.SchedulingGates = "forged", "3", nil
	f := newFixture(t, app, forged)
	f.Reconcile()
	stored := f.Object().Status.BeforeRolloutRuns[0]
	controllertest.Equal(t, "digests", strings.Repeat("t", digestLength)+strings.Repeat("c", digestLength),
		stored.TemplateDigest+stored.CommandDigest)
}

func TestBeforeRolloutGoesOnAlthoughAnotherChildFails(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(0, "")
	f.Change(func(app *v1alpha1.App) { app.Spec.Ingress = &v1alpha1.AppIngress{Host: "shop.example.com"} })
	rejected := apierrors.NewInvalid(networkingv1.SchemeGroupVersion.WithKind("Ingress").GroupKind(), "web", nil)
	f.Journal.FailNext("create", "ingresses", rejected)
	controllertest.Equal(t, "reason after the end of the command", reasonRun, controller.ReasonOf(f.Reconcile().Err))
}

func TestBeforeRolloutKeepsAppliedTemplateThatTheStatusDoesNotName(t *testing.T) {
	f := rolledOutFixture(t)
	released := f.Object().Status.TemplateDigest
	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(0, "")
	f.reconcile()
	// The operator died after it had changed the Deployment, and before it stored the status.
	kindtest.Change(f.Cluster, "default", "web", func(app *v1alpha1.App) { app.Status.TemplateDigest = released })
	f.Change(image("web:3"))
	f.Change(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](5) })
	f.reconcile()
	controllertest.Equal(t, "replicas while the command runs", ptr.To[int32](5), f.deployment().Spec.Replicas)
	controllertest.Equal(t, "image while the command runs", "web:2", f.imageOf())
}

func TestBeforeRolloutDoesNotClaimPodsOfDeletedDeployment(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(3, "")
	f.reconcile()
	if err := f.Kube.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	ready := f.ready()
	if !strings.HasPrefix(ready, "False BeforeRolloutFailed: ") || strings.Contains(ready, "previous template stay") {
		t.Errorf("the condition is %s", ready)
	}
}

func TestBeforeRolloutCreatesDeletedConfigMapOfPendingPodAgain(t *testing.T) {
	f := newFixture(t, example(withMigration, withFiles("1")))
	f.reconcile()
	f.Remove(f.files("1"))
	controllertest.Equal(t, "writes", []string{"create configmaps default/" + configName(f.Object())}, f.reconcile())
}

func TestBeforeRolloutDoesNotRunWithoutItsFiles(t *testing.T) {
	f := newFixture(t, example(withMigration, withFiles("1")))
	why := apierrors.NewForbidden(corev1.Resource("configmaps"), "web", errors.New("exceeded quota"))
	f.Journal.FailNext("create", "configmaps", why)
	controllertest.ErrorContains(t, "exceeded quota", f.Reconcile().Err)
	controllertest.Equal(t, "whether the command waits for its files", true, isGated(f.runPod()))
	f.reconcile()
	controllertest.Equal(t, "whether the command waits for its files", false, isGated(f.runPod()))
}

func TestBeforeRolloutWatchesPodWithoutOwner(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	kindtest.Change(f.Cluster, "default", runName, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	controllertest.Equal(t, "requeue", 30*time.Second, f.Reconcile().Result.RequeueAfter)
}

func TestBeforeRolloutDoesNotWaitForAddedContainers(t *testing.T) {
	f := rolledOutFixture(t)
	for _, step := range []struct {
		spec string
		code int32
		want string
	}{{"web:2", 3, "web:1"}, {"web:3", 0, "web:3"}} {
		f.Change(image(step.spec))
		f.reconcile()
		f.endRun(step.code, "")
		kindtest.Change(f.Cluster, "default", runName, func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: "proxy", State: f.runs(),
			})
		})
		f.reconcile()
		controllertest.Equal(t, fmt.Sprintf("image after exit code %d", step.code), step.want, f.imageOf())
		controllertest.Equal(t, "activeDeadlineSeconds", ptr.To[int64](1), f.runPod().Spec.ActiveDeadlineSeconds)
	}
}

func TestCrashLoopWhileTemplateIsHeldCostsNoStatusWrites(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(3, "")
	f.reconcile()
	d := f.deployment()
	for range 3 {
		f.Store(podOf(d, "web-1-a", container(waits("CrashLoopBackOff", ""), crashed("no database"), 2)))
		f.setReady(0)
		controllertest.Equal(t, "writes for a crash", 0, len(f.Reconcile().Writes))
		f.Store(podOf(d, "web-1-a", container(f.runs(), crashed("no database"), 3)))
		f.setReady(1)
		controllertest.Equal(t, "writes for a start", 0, len(f.Reconcile().Writes))
	}
}

func TestAppIsReconciledWhenCrashedPodHasSettledWhileTemplateIsHeld(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(3, "")
	f.reconcile()
	f.Store(podOf(f.deployment(), "web-1-a", container(f.runs(), crashed("no database"), 3)))
	controllertest.Equal(t, "requeue", 30*time.Second, f.Reconcile().Result.RequeueAfter)
}

// setReady sets the number of ready Pods in the status of the Deployment.
func (f fixture) setReady(n int32) {
	f.changeDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n })
}
