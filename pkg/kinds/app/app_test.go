package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

func TestMain(m *testing.M) { controllertest.Main(m, Messages) }

func TestReconcileCreatesChildren(t *testing.T) {
	rollingOut := []string{"Normal RollingOut default/web: The newest Pods are being rolled out."}
	for name, c := range map[string]struct {
		app    *v1alpha1.App
		others []runtime.Object
		writes []string
		phase  v1alpha1.AppPhase
		events []string
		err    string // a part of the error
		retry  time.Duration
	}{
		"an image alone results in a Deployment and a Service": {
			app: example(), writes: []string{
				createDeployment, createService, updateStatus,
			}, phase: v1alpha1.AppDeploying, events: rollingOut,
		},
		"all fields result in all six children, in order": {
			app:    example(withAllChildren),
			others: []runtime.Object{secret("db-credentials")},
			writes: []string{
				"create configmaps default/" + fastConfig, createDeployment, createService, "create ingresses default/web",
				"create horizontalpodautoscalers default/web", "create poddisruptionbudgets default/web", updateStatus,
			}, phase: v1alpha1.AppDeploying, events: rollingOut,
		},
		"a missing Secret delays all children": {
			app: example(withDatabase), others: []runtime.Object{readyDatabase()}, writes: []string{updateStatus},
			phase: v1alpha1.AppPending,
			events: []string{
				"Normal DependencyMissing default/web: Waiting for Secret db-credentials, which the spec names, to be created.",
			},
			err: "Waiting for Secret db-credentials", retry: 5 * time.Second,
		},
		"an existing Secret delays nothing": {
			app: example(withDatabase), others: []runtime.Object{secret("db-credentials")},
			writes: []string{createDeployment, createService, updateStatus}, phase: v1alpha1.AppDeploying, events: rollingOut,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.app, c.others...)
			r := f.Reconcile()
			controllertest.ErrorContains(t, c.err, r.Err)
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			controllertest.Equal(t, "events", c.events, r.Events)
			if c.err != "" {
				controllertest.Equal(t, "retry", c.retry, controllertest.RetryAfter(t, r.Result, r.Err))
			}
		})
	}
}

func TestReconcileOfReadyAppWritesNothing(t *testing.T) {
	f := newFixture(t, example(withDatabase), secret("db-credentials"))
	for range 2 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		f.rollOut()
	}
	controllertest.Equal(t, "phase", v1alpha1.AppReady, f.Object().Status.Phase)
	r := f.Reconcile()
	if r.Err != nil {
		t.Error(r.Err)
	}
	controllertest.Resyncs(t, 10*time.Minute, r.Result)
	controllertest.Equal(t, "writes", nil, r.Writes)
}

// TestNew runs the controller with informers. No resync happens, so only events start a reconcile.
func TestNew(t *testing.T) {
	for name, named := range map[string]*corev1.Secret{
		"the operator created the Secret": managed("db-credentials"),
		"a user created the Secret":       secret("db-credentials"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(withDatabase))
			if len(named.Labels) == 0 {
				// The cache of owned objects gets no event of this Secret.
				f.Kube.PrependWatchReactor("secrets", clienttesting.DefaultWatchReactor(watch.NewFake(), nil))
			}
			f.Cluster.Restart()
			c, err := New(f.Cluster.Cluster, f.Runtime())
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Run(t, c, 1, f.Owned, f.Kinds, f.Others, f.Routes)
			f.awaitPhase(v1alpha1.AppPending)
			f.Store(named)
			if len(named.Labels) == 0 {
				if err := f.Metadata.Tracker().Add(kindtest.Metadata(t, named)); err != nil {
					t.Fatal(err)
				}
			}
			f.awaitPhase(v1alpha1.AppDeploying)
			f.rollOut()
			f.awaitPhase(v1alpha1.AppReady)
		})
	}
}

// awaitPhase waits until the App is in a phase.
func (f fixture) awaitPhase(phase v1alpha1.AppPhase) {
	f.T.Helper()
	f.Eventually("phase "+string(phase), func() bool { return f.Object().Status.Phase == phase })
}

func TestErrorDeterminesPhase(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		phase v1alpha1.AppPhase
	}{
		"an error that is retried": {errors.New("no response"), v1alpha1.AppDeploying},
		"an error that a user must fix": {
			apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), "web", nil), v1alpha1.AppFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example())
			f.Journal.FailNext("create", "services", c.err)
			controllertest.ErrorContains(t, c.err.Error(), f.Reconcile().Err)
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
		})
	}
}

func TestReconcileRepairsRunningAppWhileSecretIsMissing(t *testing.T) {
	f := newFixture(t, example(withDatabase), secret("db-credentials"), readyDatabase())
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.rollOut()
	f.Remove(secret("db-credentials"), kindtest.Get[*corev1.Service](f.Cluster, "default", "web"))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "Waiting for Secret db-credentials", r.Err)
	controllertest.Equal(t, "writes", []string{createService, updateStatus}, r.Writes)
	controllertest.Equal(t, "phase", v1alpha1.AppPending, f.Object().Status.Phase)
	const waits = "DependencyMissing: Waiting for Secret db-credentials, which the spec names, to be created."
	controllertest.Equal(t, "conditions", []string{
		"Degraded=False AsExpected", "Progressing=True " + waits, "Ready=False " + waits,
	}, controllertest.Conditions(f.Object()))
}

// TestReconcileKeepsReplicasThatAutoscalerSets changes the replicas while a reconcile reads a Secret.
func TestReconcileKeepsReplicasThatAutoscalerSets(t *testing.T) {
	f := newFixture(t, example(withAllChildren), secret("db-credentials"))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.changeDeployment(func(d *appsv1.Deployment) {
		d.Annotations[inputsAnnotation] = ""
		d.Spec.Replicas = ptr.To[int32](0)
	})
	f.Restart() // so that the Secret is read again
	f.Observe()
	f.Kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](5) })
		controllertest.Load(t, f.Deployments().Informer.GetStore(), f.deployment())
		return false, nil, nil
	})
	controllertest.ErrorContains(t, "", f.ReconcileAsCached().Err)
	controllertest.Equal(t, "replicas", 5, *f.deployment().Spec.Replicas)
}

func TestAutoscalingStartsAtMinimumAfterZeroReplicas(t *testing.T) {
	f := newFixture(t, example(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](0) }))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.Change(func(app *v1alpha1.App) {
		app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3}
	})
	for range 2 { // the second reconcile no longer sets the number
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		controllertest.Equal(t, "replicas", 2, *f.deployment().Spec.Replicas)
	}
	if strings.Contains(f.deployment().Annotations[children.RecordAnnotation], `"replicas"`) {
		t.Error("the record still has the number of replicas")
	}
}

func TestEnvTakesPrecedenceOverDatabase(t *testing.T) {
	app := example(withDatabase, func(app *v1alpha1.App) {
		app.Spec.Env = []corev1.EnvVar{{Name: "PGUSER", Value: "me"}}
	})
	var names []string
	for _, variable := range environment(app) {
		names = append(names, variable.Name+"="+variable.Value)
	}
	controllertest.Equal(t, "environment", []string{
		"DATABASE_URL=", "PGHOST=", "PGPORT=", "PGDATABASE=", "PGPASSWORD=", "PGSSLMODE=", "PGSSLROOTCERT=",
		"PGUSER=me",
	}, names)
}

func TestDatabaseVerifiedByMountedCA(t *testing.T) {
	template, err := desiredTemplate(example(withDatabase))
	controllertest.ErrorContains(t, "", err)
	container := containerIn(template)
	paths := map[string]bool{}
	for _, mount := range container.VolumeMounts {
		for _, v := range template.Spec.Volumes {
			if v.Name == mount.Name && v.Secret != nil && v.Secret.SecretName == "db-credentials" {
				controllertest.Equal(t, "items", []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}, v.Secret.Items)
				controllertest.Equal(t, "optional, for a server of a public CA", true, ptr.Deref(v.Secret.Optional, false))
				paths[mount.MountPath+"/ca.crt"] = true
			}
		}
	}
	secret := credentials.Secret(metav1.ObjectMeta{}, postgresql.Settings{CA: []byte("a CA")})
	if path := string(secret.Data["sslrootcert"]); !paths[path] {
		t.Errorf("the Secret names the file %s, and the Pods have %v", path, paths)
	}
}

func TestVolumesOfUserTakePrecedenceOverCA(t *testing.T) {
	for name, volume := range map[string]v1alpha1.AppVolume{
		"a volume at the path of the CA": {MountPath: "/etc/windlass/database/"},
		"a volume with the same name":    {MountPath: "/app/database"},
	} {
		t.Run(name, func(t *testing.T) {
			volume.EmptyDir = &v1alpha1.AppEmptyDir{}
			template, err := desiredTemplate(example(withDatabase, func(app *v1alpha1.App) {
				app.Spec.Volumes = []v1alpha1.AppVolume{volume}
			}))
			controllertest.ErrorContains(t, "", err)
			names, paths := map[string]int{}, map[string]int{}
			for _, v := range template.Spec.Volumes {
				names[v.Name]++
			}
			for _, mount := range containerIn(template).VolumeMounts {
				paths[strings.TrimSuffix(mount.MountPath, "/")]++
			}
			for what, n := range map[string]map[string]int{"volume": names, "path": paths} {
				for key, count := range n {
					if count > 1 {
						t.Errorf("%s %s exists %d times", what, key, count)
					}
				}
			}
		})
	}
}

func TestURL(t *testing.T) {
	for want, ingress := range map[string]*v1alpha1.AppIngress{
		"http://web.default.svc":  nil,
		"http://a.example.com":    {Host: "a.example.com", Path: "/"},
		"https://a.example.com/b": {Host: "a.example.com", Path: "/b", TLSSecretName: "tls"},
	} {
		controllertest.Equal(t, "url", want, urlOf(example(func(app *v1alpha1.App) { app.Spec.Ingress = ingress })))
	}
	wildcard := example(func(app *v1alpha1.App) {
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "*.example.com", Path: "/", TLSSecretName: "tls"}
	})
	controllertest.Equal(t, "url of a wildcard", "http://web.default.svc", urlOf(wildcard))
}
