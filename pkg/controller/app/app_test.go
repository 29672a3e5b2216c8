package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/controllertest"
	windlassfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example is an App with the defaults that the schema sets, after some changes.
func example(changes ...func(*v1alpha1.App)) *v1alpha1.App {
	app := &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "app-uid", ResourceVersion: "1", Generation: 1},
		Spec:       v1alpha1.AppSpec{Image: "web:1", Replicas: ptr.To[int32](1), Port: 8080},
	}
	for _, change := range changes {
		change(app)
	}
	return app
}

// running is a controller of App that runs on fake servers.
type running struct {
	t        *testing.T
	kube     *kubefake.Clientset
	windlass *windlassfake.Clientset
	journal  *controllertest.Journal
	events   *controllertest.Recorder
}

// run starts a controller with an App, and with Secrets and ConfigMaps of the user's,
// until the test ends.
func run(t *testing.T, app *v1alpha1.App, users ...runtime.Object) *running {
	t.Helper()
	r := &running{t: t, kube: kubefake.NewClientset(users...), windlass: windlassfake.NewSimpleClientset(app), events: &controllertest.Recorder{}}
	r.journal = controllertest.NewJournal(r.kube, r.windlass)
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var known []runtime.Object
	for _, object := range users {
		known = append(known, metadataOf(object))
	}
	in := Informers{
		Kube:     informers.NewSharedInformerFactory(r.kube, 0),
		Windlass: externalversions.NewSharedInformerFactory(r.windlass, 0),
		Metadata: metadatainformer.NewSharedInformerFactory(fake.NewSimpleMetadataClient(scheme, known...), 0),
	}
	c, err := New(Clients{Kube: r.kube, Windlass: r.windlass}, in, r.events, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in.Kube.Start(ctx.Done())
	in.Windlass.Start(ctx.Done())
	in.Metadata.Start(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, 1) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended with: %v", err)
		}
		in.Kube.Shutdown()
		in.Windlass.Shutdown()
		in.Metadata.Shutdown()
	})
	return r
}

func metadataOf(object runtime.Object) runtime.Object {
	accessor := object.(metav1.Object)
	kind := kindSecret
	if _, ok := object.(*corev1.ConfigMap); ok {
		kind = kindConfigMap
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: accessor.GetNamespace(), Name: accessor.GetName(), UID: accessor.GetUID(), ResourceVersion: accessor.GetResourceVersion()},
	}
}

// app is the App as the server has it.
func (r *running) app() *v1alpha1.App {
	r.t.Helper()
	app, err := r.windlass.WindlassV1alpha1().Apps("default").Get(r.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return app
}

func (r *running) eventually(what string, holds func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.t.Context(), 1e6, 6e10, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		r.t.Fatalf("waiting for %s: %v; writes: %v", what, err, r.journal.Writes())
	}
}

func (r *running) in(phase v1alpha1.AppPhase) {
	r.t.Helper()
	r.eventually("phase "+string(phase), func() bool { return r.app().Status.Phase == phase })
}

// rolledOut is what the Deployment controller says of a Deployment of n Pods that it
// has rolled out.
func rolledOutOf(n int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: rolledOut}},
	}
}

func (r *running) rollOut() {
	r.t.Helper()
	deployments := r.kube.AppsV1().Deployments("default")
	d, err := deployments.Get(r.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	d.Status = rolledOutOf(*d.Spec.Replicas)
	if _, err := deployments.UpdateStatus(r.t.Context(), d, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "secret-uid", ResourceVersion: "5"}, Data: map[string][]byte{"uri": []byte("canary")}}
}

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
			r := run(t, c.app, c.users...)
			r.in(c.phase)
			controllertest.Equal(t, "writes", c.writes, r.journal.Writes())
			controllertest.Equal(t, "events", c.events, r.events.Events())
			if c.phase == v1alpha1.AppDeploying {
				r.rollOut()
				r.in(v1alpha1.AppReady)
			}
		})
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

func TestWhatADeploymentComesTo(t *testing.T) {
	autoscaled := func(app *v1alpha1.App) {
		app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 9}
	}
	for name, c := range map[string]struct {
		app    *v1alpha1.App
		wanted int32
		change func(*appsv1.Deployment)
		phase  v1alpha1.AppPhase
		reason string
	}{
		"rolled out and available":                {example(), 3, func(*appsv1.Deployment) {}, v1alpha1.AppReady, "Available"},
		"scaled to zero":                          {example(), 0, func(*appsv1.Deployment) {}, v1alpha1.AppReady, "Available"},
		"changed, and not seen by its controller": {example(), 3, func(d *appsv1.Deployment) { d.Generation = 2 }, v1alpha1.AppDeploying, "RollingOut"},
		"with old Pods left":                      {example(), 3, func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, v1alpha1.AppDeploying, "RollingOut"},
		"with new Pods to come":                   {example(), 3, func(d *appsv1.Deployment) { d.Status.UpdatedReplicas, d.Status.Replicas = 2, 2 }, v1alpha1.AppDeploying, "RollingOut"},
		"with a Pod that has become unavailable":  {example(), 3, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }, v1alpha1.AppDeploying, "PodsUnavailable"},
		"being scaled up by its autoscaler":       {example(autoscaled), 6, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 3 }, v1alpha1.AppReady, "Available"},
		"below its autoscaler's minimum":          {example(autoscaled), 6, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, v1alpha1.AppDeploying, "PodsUnavailable"},
		"past its deadline": {example(), 3, func(d *appsv1.Deployment) {
			d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason = corev1.ConditionFalse, deadlineExceeded
		}, v1alpha1.AppFailed, "ProgressDeadlineExceeded"},
		"whose Pods are refused": {example(), 3, func(d *appsv1.Deployment) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"})
		}, v1alpha1.AppFailed, "FailedCreate"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: appsv1.DeploymentSpec{Replicas: &c.wanted}, Status: rolledOutOf(c.wanted)}
			d.Status.ObservedGeneration = 1
			c.change(d)
			got := verdictOf(c.app, d)
			controllertest.Equal(t, "phase", c.phase, got.phase)
			controllertest.Equal(t, "reason", c.reason, got.reason)
		})
	}
}

func TestNumbersMoveWithThePhaseOrAReason(t *testing.T) {
	app := example()
	for _, step := range []struct {
		ready int32
		want  int32
	}{{1, 1}, {2, 1}, {3, 3}} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)}, Status: rolledOutOf(3)}
		d.Status.UpdatedReplicas, d.Status.ReadyReplicas = step.ready, step.ready
		setRollout(app, d)
		controllertest.Equal(t, "readyReplicas", step.want, app.Status.ReadyReplicas)
	}
}

func TestReferencesAreTheSecretsAndConfigMapsThatPodsNeed(t *testing.T) {
	optional := ptr.To(true)
	app := example(func(app *v1alpha1.App) {
		app.Spec.Env = []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "twice"}, Optional: optional}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}
		app.Spec.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "twice"}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "maybe"}, Optional: optional}},
		}
		app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
		app.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.b", TLSSecretName: "tls"}
	})
	want := []reference{{kindConfigMap, "maybe", true}, {kindConfigMap, "settings", false}, {kindSecret, "db-credentials", false}, {kindSecret, "twice", false}}
	got := referencesOf(app)
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("wanted %v, got %v", want[i], got[i])
		}
	}
	keys, err := referencesIn(app)
	if err != nil || keys[2] != "default/Secret/db-credentials" {
		t.Errorf("the index has %v, %v", keys, err)
	}
	if keys, err := referencesIn("no App"); err != nil || keys != nil {
		t.Errorf("the index of no App has %v, %v", keys, err)
	}
}

func TestADigestTellsContentAndNotVersions(t *testing.T) {
	before, labelled, changed, again := secret("s"), secret("s"), secret("s"), secret("s")
	labelled.ResourceVersion = "6"
	changed.Data["uri"] = []byte("else")
	again.UID = "another"
	digest := func(s *corev1.Secret) string { return digestOf(s, s.Data) }
	if digest(before) != digest(labelled) || digest(before) == digest(changed) {
		t.Error("a digest does not tell the content")
	}
	if digest(before) == digest(again) {
		t.Error("a digest is not keyed: its content could be guessed at")
	}
	in := inputs{"Secret/s": {versionOf(before), digest(before)}}
	controllertest.Equal(t, "inputs that were written and read", in, inputsFrom(in.String()))
	controllertest.Equal(t, "inputs that somebody has broken", nil, inputsFrom("{"))
	newer := inputs{"Secret/s": {versionOf(labelled), digest(labelled)}}
	if in.digest() != newer.digest() || in.String() == newer.String() {
		t.Error("the digest of all inputs tells versions")
	}
	if strings.Contains(in.String(), "canary") {
		t.Error("inputs hold data")
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
	controllertest.Equal(t, "environment", []string{"DATABASE_URL=", "PGHOST=", "PGPORT=", "PGDATABASE=", "PGPASSWORD=", "PGUSER=me"}, names)
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

var _ controller.Object = example()
