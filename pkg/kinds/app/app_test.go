package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const updateStatus = "update apps/status default/web"

func TestWhatAnAppMakes(t *testing.T) {
	smallest := []string{"create deployments default/web", "create services default/web", updateStatus}
	for name, c := range map[string]struct {
		app    *v1alpha1.App
		users  []runtime.Object
		writes []string
		phase  v1alpha1.AppPhase
		events []string
	}{
		"an image alone is a Deployment and a Service": {
			app: example(), writes: smallest, phase: v1alpha1.AppDeploying, events: []string{"Normal RollingOut default/web: The newest Pods are being rolled out."},
		},
		"with all that there is it has all six children, in order": {
			app: example(func(app *v1alpha1.App) {
				app.Spec.Config = map[string]string{"a": "b"}
				app.Spec.Ingress = &v1alpha1.AppIngress{Host: "web.example.com", Path: "/"}
				app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3}
			}),
			writes: []string{
				"create configmaps default/web", "create deployments default/web", "create services default/web", "create ingresses default/web",
				"create horizontalpodautoscalers default/web", "create poddisruptionbudgets default/web", updateStatus,
			}, phase: v1alpha1.AppDeploying, events: []string{"Normal RollingOut default/web: The newest Pods are being rolled out."},
		},
		"without a Secret that it names it waits, and makes nothing": {
			app:    example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }),
			writes: []string{updateStatus}, phase: v1alpha1.AppPending,
			events: []string{"Normal DependencyMissing default/web: Waiting for Secret db-credentials, which the spec names, to be created."},
		},
		"with the Secret that it names it does not wait": {
			app:   example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }),
			users: []runtime.Object{secret("db-credentials")}, writes: smallest, phase: v1alpha1.AppDeploying,
			events: []string{"Normal RollingOut default/web: The newest Pods are being rolled out."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.app, c.users...)
			_, err := w.pass()
			controllertest.Equal(t, "a dependency is missing", c.phase == v1alpha1.AppPending, err != nil)
			controllertest.Equal(t, "phase", c.phase, w.app().Status.Phase)
			controllertest.Equal(t, "writes", c.writes, w.journal.Writes())
			controllertest.Equal(t, "events", c.events, w.events.Events())
		})
	}
}

func TestAnAppAtRestWritesNothing(t *testing.T) {
	w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }), secret("db-credentials"))
	for range 2 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		w.rollOut()
	}
	controllertest.Equal(t, "phase", v1alpha1.AppReady, w.app().Status.Phase)
	before := len(w.journal.Writes())
	result, err := w.pass()
	if err != nil || !result.Check || result.RequeueAfter < 9*time.Minute || result.RequeueAfter > 11*time.Minute {
		t.Errorf("a pass at rest ended with %+v, %v", result, err)
	}
	controllertest.Equal(t, "writes", nil, w.journal.Writes()[before:])
}

// TestNew runs the controller with informers and a clock that stands still, so that only events start a
// reconcile.
func TestNew(t *testing.T) {
	for name, named := range map[string]*corev1.Secret{
		"an App that names a Secret made here":             ours("db-credentials"),
		"an App that names a Secret that others have made": secret("db-credentials"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }))
			if len(named.Labels) == 0 {
				// The cache of owned objects gets no event of this Secret.
				w.kube.PrependWatchReactor("secrets", clienttesting.DefaultWatchReactor(watch.NewFake(), nil))
			}
			c, err := New(w.cluster, w.runtime())
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Run(t, c, 1, w.cluster.Owned, w.cluster.Own, w.cluster.Others)
			w.awaitPhase(v1alpha1.AppPending)
			if _, err := w.kube.CoreV1().Secrets("default").Create(t.Context(), named, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if len(named.Labels) == 0 {
				if err := w.metadata.Tracker().Add(metadataOf(named)); err != nil {
					t.Fatal(err)
				}
			}
			w.awaitPhase(v1alpha1.AppDeploying)
			w.rollOut()
			w.awaitPhase(v1alpha1.AppReady)
		})
	}
}

// awaitPhase waits until the App is in a phase.
func (w *world) awaitPhase(phase v1alpha1.AppPhase) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return w.app().Status.Phase == phase, nil
	})
	if err != nil {
		w.t.Fatalf("waiting for phase %s: %v; writes: %v", phase, err, w.journal.Writes())
	}
}

func TestAnErrorShowsInThePhase(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		phase v1alpha1.AppPhase
	}{
		"one that goes by itself": {errors.New("no answer"), v1alpha1.AppDeploying},
		"one that somebody must look at": {
			apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), "web", nil), v1alpha1.AppFailed},
	} {
		t.Run(name, func(t *testing.T) {
			app := example()
			setBlocked(app, true, c.err)
			controllertest.Equal(t, "phase", c.phase, app.Status.Phase)
		})
	}
}

func TestARunningAppIsKeptWhileASecretIsMissing(t *testing.T) {
	w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }), secret("db-credentials"))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	w.rollOut()
	if err := w.kube.CoreV1().Secrets("default").Delete(t.Context(), "db-credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := len(w.journal.Writes())
	if _, err := w.pass(); err == nil {
		t.Error("nothing is missing")
	}
	controllertest.Equal(t, "writes", []string{"create services default/web", updateStatus}, w.journal.Writes()[before:])
	controllertest.Equal(t, "phase", v1alpha1.AppPending, w.app().Status.Phase)
	const waits = "DependencyMissing: Waiting for Secret db-credentials, which the spec names, to be created."
	controllertest.Equal(t, "conditions", []string{"Degraded=False AsExpected", "Progressing=True " + waits, "Ready=False " + waits}, controllertest.Conditions(w.app()))
}

// TestWhatAnAutoscalerHasMadeOfZeroStays changes the replicas while a reconcile reads a Secret.
func TestWhatAnAutoscalerHasMadeOfZeroStays(t *testing.T) {
	w := newWorld(t, example(everything), secret("db-credentials"))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	d := w.deployment()
	d.Annotations[inputsAnnotation] = "" // so that the Secret is read again
	scale := func(n int32) {
		d.Spec.Replicas = &n
		if err := w.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), d, "default"); err != nil {
			t.Fatal(err)
		}
	}
	scale(0)
	pipeline := w.fill()
	w.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		scale(5)
		controllertest.Load(t, w.cluster.Deployments().Informer.GetStore(), d)
		return false, nil, nil
	})
	if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "replicas", 5, *w.deployment().Spec.Replicas)
}

func TestAnAutoscalerDoesNotBeginAtZero(t *testing.T) {
	w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](0) }))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	app := w.app()
	app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3}
	if _, err := w.windlass.WindlassV1alpha1().Apps("default").Update(t.Context(), app, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // after the second reconcile the autoscaler owns the number
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "replicas", 2, *w.deployment().Spec.Replicas)
	}
	if strings.Contains(w.deployment().Annotations[children.RecordAnnotation], `"replicas"`) {
		t.Error("the number is still the App's")
	}
}

func TestAUsersVariableWinsOverTheDatabases(t *testing.T) {
	app := example(func(app *v1alpha1.App) {
		app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
		app.Spec.Env = []corev1.EnvVar{{Name: "PGUSER", Value: "me"}}
	})
	var names []string
	for _, variable := range environment(app) {
		names = append(names, variable.Name+"="+variable.Value)
	}
	controllertest.Equal(t, "environment", []string{"DATABASE_URL=", "PGHOST=", "PGPORT=", "PGDATABASE=", "PGPASSWORD=", "PGSSLMODE=", "PGUSER=me"}, names)
}

func TestWhereAnAppIsReached(t *testing.T) {
	for want, ingress := range map[string]*v1alpha1.AppIngress{
		"http://web.default.svc":  nil,
		"http://a.example.com":    {Host: "a.example.com", Path: "/"},
		"https://a.example.com/b": {Host: "a.example.com", Path: "/b", TLSSecretName: "tls"},
	} {
		controllertest.Equal(t, "url", want, urlOf(example(func(app *v1alpha1.App) { app.Spec.Ingress = ingress })))
	}
}
