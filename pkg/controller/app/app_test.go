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
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
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

// world is fake servers with an App, and with Secrets and ConfigMaps of the user's.
type world struct {
	t        testing.TB
	kube     *kubefake.Clientset
	windlass *windlassfake.Clientset
	metadata *fake.FakeMetadataClient
	in       Informers
	journal  *controllertest.Journal
	events   *controllertest.Recorder
}

func newWorld(t testing.TB, app *v1alpha1.App, users ...runtime.Object) *world {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var known []runtime.Object
	for _, object := range users {
		known = append(known, metadataOf(object))
	}
	w := &world{
		t: t, kube: kubefake.NewClientset(users...), windlass: windlassfake.NewSimpleClientset(app),
		metadata: fake.NewSimpleMetadataClient(scheme, known...), events: &controllertest.Recorder{},
	}
	w.journal = controllertest.NewJournal(w.kube, w.windlass)
	w.in = Informers{
		Kube:     informers.NewSharedInformerFactory(w.kube, 0),
		Windlass: externalversions.NewSharedInformerFactory(w.windlass, 0),
		Metadata: metadatainformer.NewSharedInformerFactory(w.metadata, 0),
	}
	return w
}

func (w *world) clients() Clients { return Clients{Kube: w.kube, Windlass: w.windlass} }

// pass does one pass for the App, with caches that hold what the servers have.
func (w *world) pass() (controller.Result, error) {
	w.t.Helper()
	return w.fill().Sync(w.t.Context(), controller.Key{Namespace: "default", Name: "web"})
}

// fill fills the caches with what the servers have, and returns what does a pass.
func (w *world) fill() *controller.Pipeline[*v1alpha1.App] {
	w.t.Helper()
	refs := newReferences(w.kube.CoreV1(), w.in.Metadata)
	pipeline := newPipeline(w.clients(), w.in, refs, w.events, clocktesting.NewFakePassiveClock(time.Now()))
	controllertest.Load(w.t, w.in.Windlass.Windlass().V1alpha1().Apps().Informer().GetStore(), w.app())
	if d := w.deployment(); d != nil {
		controllertest.Load(w.t, w.in.Kube.Apps().V1().Deployments().Informer().GetStore(), d)
	}
	if s, err := w.kube.CoreV1().Services("default").Get(w.t.Context(), "web", metav1.GetOptions{}); err == nil {
		controllertest.Load(w.t, w.in.Kube.Core().V1().Services().Informer().GetStore(), s)
	}
	for kind, informer := range refs.informers {
		for _, object := range w.users(kind) {
			controllertest.Load(w.t, informer.GetStore(), metadataOf(object))
		}
	}
	return pipeline
}

// forget empties the caches, for what is gone.
func (w *world) forget() {
	w.in.Kube = informers.NewSharedInformerFactory(w.kube, 0)
	w.in.Metadata = metadatainformer.NewSharedInformerFactory(w.metadata, 0)
}

// users are the Secrets or ConfigMaps there are.
func (w *world) users(kind string) (all []runtime.Object) {
	w.t.Helper()
	if kind == kindSecret {
		list, err := w.kube.CoreV1().Secrets("default").List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	d, err := w.kube.AppsV1().Deployments("default").Get(w.t.Context(), "web", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d
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
func (w *world) app() *v1alpha1.App {
	w.t.Helper()
	app, err := w.windlass.WindlassV1alpha1().Apps("default").Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return app
}

// rolledOut is what the Deployment controller says of a Deployment of n Pods that it
// has rolled out.
func rolledOutOf(n int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: rolledOut}},
	}
}

// rollOut is what the Deployment controller does in the end.
func (w *world) rollOut() {
	w.t.Helper()
	d := w.deployment()
	d.Status = rolledOutOf(*d.Spec.Replicas)
	if _, err := w.kube.AppsV1().Deployments("default").UpdateStatus(w.t.Context(), d, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
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

// TestNew has a controller with informers, whose clock stands still: what happens
// comes of events.
func TestNew(t *testing.T) {
	w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }))
	c, err := New(w.clients(), w.in, w.events, clocktesting.NewFakeClock(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.in.Kube.Start(ctx.Done())
	w.in.Windlass.Start(ctx.Done())
	w.in.Metadata.Start(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, 1) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended with: %v", err)
		}
		w.in.Kube.Shutdown()
		w.in.Windlass.Shutdown()
		w.in.Metadata.Shutdown()
	}()
	in := func(phase v1alpha1.AppPhase) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return w.app().Status.Phase == phase, nil
		})
		if err != nil {
			t.Fatalf("waiting for phase %s: %v; writes: %v", phase, err, w.journal.Writes())
		}
	}
	in(v1alpha1.AppPending)
	if _, err := w.kube.CoreV1().Secrets("default").Create(ctx, secret("db-credentials"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.metadata.Tracker().Add(metadataOf(secret("db-credentials"))); err != nil {
		t.Fatal(err)
	}
	in(v1alpha1.AppDeploying)
	w.rollOut()
	in(v1alpha1.AppReady)
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
	w.forget()
	before := len(w.journal.Writes())
	if _, err := w.pass(); err == nil {
		t.Error("nothing is missing")
	}
	controllertest.Equal(t, "writes", []string{"create services default/web", updateStatus}, w.journal.Writes()[before:])
	controllertest.Equal(t, "phase", v1alpha1.AppPending, w.app().Status.Phase)
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
	for range 2 { // after the second pass the number is the autoscaler's
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "replicas", 2, *w.deployment().Spec.Replicas)
	}
	if strings.Contains(w.deployment().Annotations[children.RecordAnnotation], `"replicas"`) {
		t.Error("the number is still the App's")
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

func BenchmarkAPassAtRest(b *testing.B) {
	w := newWorld(b, example())
	for range 3 {
		if _, err := w.pass(); err != nil {
			b.Fatal(err)
		}
		w.rollOut()
	}
	pipeline, key := w.fill(), controller.Key{Namespace: "default", Name: "web"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pipeline.Sync(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
}
