package platform

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	windlassfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example returns a Platform with some components.
func example(components ...v1alpha1.PlatformComponent) *v1alpha1.Platform {
	return &v1alpha1.Platform{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop-uid", ResourceVersion: "1", Generation: 1, Finalizers: []string{finalizerName}},
		Spec:       v1alpha1.PlatformSpec{Namespace: "shops", Components: components},
	}
}

// app returns a component that is an App. The functions below do the same for the other kinds.
func app(name string, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: needs, App: &v1alpha1.AppSpec{Image: name + ":1", Port: 8080}}
}

func database(name string, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: needs, Database: &v1alpha1.DatabaseSpec{Version: "17"}}
}

func outside(name string, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: needs, ExternalDatabase: &v1alpha1.ExternalDatabaseSpec{DatabaseName: name}}
}

func at(name string, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: needs, At: &cnatv1.AtSpec{Schedule: "2020-01-01T00:00:00Z"}}
}

func in(state v1alpha1.ManagementState, c v1alpha1.PlatformComponent) v1alpha1.PlatformComponent {
	c.ManagementState = state
	return c
}

// world has a fake server and its caches.
type world struct {
	t        *testing.T
	kube     *kubefake.Clientset
	windlass *windlassfake.Clientset
	cluster  kinds.Cluster
	pipeline *controller.Pipeline[*v1alpha1.Platform]
	journal  *controllertest.Journal
	events   *controllertest.Recorder
	clock    *clocktesting.FakeClock
}

// key is the key of example.
var key = controller.Key{Name: "shop"}

func ownerOfExample() children.Owner {
	return children.Owner{Object: example(), Kind: groupVersionKind}
}

// newBareWorld returns a world without a pipeline.
func newBareWorld(t *testing.T, platform *v1alpha1.Platform) *world {
	t.Helper()
	meta := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(meta); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, kube: kubefake.NewClientset(), windlass: windlassfake.NewSimpleClientset(platform), events: &controllertest.Recorder{}, clock: clocktesting.NewFakeClock(time.Now())}
	w.journal = controllertest.NewJournal(w.kube, w.windlass)
	w.cluster = kinds.Cluster{
		Cluster:  cluster.Cluster{Kube: w.kube, All: metadatainformer.NewSharedInformerFactory(fake.NewSimpleMetadataClient(meta), 0)},
		Windlass: w.windlass, Own: externalversions.NewSharedInformerFactory(w.windlass, 0),
	}
	return w
}

// newWorld returns a world whose status lists the components, as after a first reconcile.
func newWorld(t *testing.T, platform *v1alpha1.Platform) *world {
	t.Helper()
	for i := range platform.Spec.Components {
		announced(platform, &platform.Spec.Components[i])
	}
	w := newBareWorld(t, platform)
	kind, err := declare(w.cluster, w.runtime(), Options{OwnNamespaces: []string{"operators"}})
	if err != nil {
		t.Fatal(err)
	}
	w.pipeline = kind.Pipeline(w.runtime())
	return w
}

// runtime returns the runtime of the controller of Platform.
func (w *world) runtime() controller.Runtime {
	return controller.Runtime{Events: w.events, Clock: w.clock}
}

// announced lists a component in the status.
func announced(platform *v1alpha1.Platform, c *v1alpha1.PlatformComponent) {
	said := v1alpha1.PlatformComponentStatus{Name: c.Name, Kind: kindOf(c), ManagementState: c.ManagementState}
	if said.Kind != "" && !slices.Contains(platform.Status.Components, said) {
		platform.Status.Components = append(platform.Status.Components, said)
	}
}

// house puts the namespace into the cache.
func (w *world) house(changes ...func(*metav1.PartialObjectMetadata)) {
	w.t.Helper()
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shops", ResourceVersion: "1"}}
	for _, change := range changes {
		change(namespace)
	}
	controllertest.Load(w.t, w.cluster.All.ForResource(corev1.SchemeGroupVersion.WithResource("namespaces")).Informer().GetStore(), namespace)
}

// has creates the child of a component as an earlier reconcile has left it, in one of the states ready,
// pending, failed, stalled, old, going, released, shared, copied and foreign.
func (w *world) has(c v1alpha1.PlatformComponent, state string) {
	w.t.Helper()
	platform := w.platform()
	k := w.pipeline.Reconciler.(*reconciler).kinds.named(kindOf(&c))
	child, err := k.ensure(context.Background(), children.Owner{Object: platform, Kind: groupVersionKind}, desiredMeta(platform, &c), &c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.change(func(platform *v1alpha1.Platform) { announced(platform, &c) })
	child.SetUID(types.UID(string(c.Name) + "-uid"))
	child.SetResourceVersion("7")
	child.SetGeneration(1)
	*child.StatusObservedGeneration() = 1
	list := child.StatusConditions()
	conditions.False(list, conditions.Ready, "NotYet", string(c.Name)+" is not there yet.")
	switch state {
	case "ready":
		conditions.True(list, conditions.Ready, "Available", string(c.Name)+" is there.")
	case "pending":
	case "stalled":
		conditions.True(list, conditions.Stalled, "Broken", string(c.Name)+" is broken.")
		fallthrough
	case "failed":
		conditions.True(list, conditions.Degraded, "Broken", string(c.Name)+" is broken.")
	case "old": // it was Ready before its spec changed
		conditions.True(list, conditions.Ready, "Available", string(c.Name)+" is there.")
		child.SetGeneration(2)
	case "going":
		child.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		child.SetFinalizers([]string{"example.com/slow"})
	case "released":
		child.SetOwnerReferences(nil)
	case "shared":
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(platform, groupVersionKind)})
		child.GetOwnerReferences()[0].Controller = nil
	case "copied":
		record := strings.ReplaceAll(child.GetAnnotations()[children.RecordAnnotation], child.GetName(), "shop-original")
		child.SetAnnotations(map[string]string{children.RecordAnnotation: record})
	case "foreign":
		child.SetOwnerReferences(nil)
		child.SetAnnotations(nil)
	default:
		w.t.Fatalf("there is no state %q", state)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(child)
	if err != nil {
		w.t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	if err := w.windlass.Tracker().Update(resource, child, child.GetNamespace()); err != nil {
		w.t.Fatal(err)
	}
}

// change changes the Platform on the server.
func (w *world) change(change func(*v1alpha1.Platform)) {
	w.t.Helper()
	platform := w.platform()
	change(platform)
	if err := w.windlass.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("platforms"), platform, ""); err != nil {
		w.t.Fatal(err)
	}
}

// pass reconciles once, with caches that hold the objects of the server, and returns the writes.
func (w *world) pass() (writes []string, err error) {
	w.t.Helper()
	w.fill()
	before := len(w.journal.Writes())
	_, err = w.pipeline.Sync(w.t.Context(), key)
	return w.journal.Writes()[before:], err
}

// fill fills the caches with the objects of the server.
func (w *world) fill() {
	w.t.Helper()
	ctx, own := context.Background(), w.windlass.WindlassV1alpha1()
	platforms, err := own.Platforms().List(ctx, metav1.ListOptions{})
	refill(w, w.cluster.Own.Windlass().V1alpha1().Platforms().Informer(), items(platforms.Items), err)
	apps, err := own.Apps("").List(ctx, metav1.ListOptions{})
	refill(w, w.cluster.Own.Windlass().V1alpha1().Apps().Informer(), items(apps.Items), err)
	databases, err := own.Databases("").List(ctx, metav1.ListOptions{})
	refill(w, w.cluster.Own.Windlass().V1alpha1().Databases().Informer(), items(databases.Items), err)
	outside, err := own.ExternalDatabases("").List(ctx, metav1.ListOptions{})
	refill(w, w.cluster.Own.Windlass().V1alpha1().ExternalDatabases().Informer(), items(outside.Items), err)
	ats, err := w.windlass.CnatV1().Ats("").List(ctx, metav1.ListOptions{})
	refill(w, w.cluster.Own.Cnat().V1().Ats().Informer(), items(ats.Items), err)
}

func items[T any](list []T) (objects []any) {
	for i := range list {
		objects = append(objects, &list[i])
	}
	return objects
}

func refill(w *world, informer cache.SharedIndexInformer, objects []any, err error) {
	w.t.Helper()
	if err == nil {
		err = informer.GetStore().Replace(objects, "")
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// platform returns the Platform on the server, or nil.
func (w *world) platform() *v1alpha1.Platform {
	w.t.Helper()
	platform, err := w.windlass.WindlassV1alpha1().Platforms().Get(context.Background(), "shop", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return platform
}

// says returns a line for each component in the status: name, kind, state, phase and reason.
func says(platform *v1alpha1.Platform) (lines []string) {
	for _, c := range platform.Status.Components {
		fields := []string{string(c.Name), c.Kind, string(c.ManagementState), string(c.Phase), c.Reason}
		lines = append(lines, strings.Join(slices.DeleteFunc(fields, func(f string) bool { return f == "" }), " "))
	}
	return lines
}

// condition returns a condition of a Platform in one line: its status, reason and message.
func condition(platform *v1alpha1.Platform, kind string) string {
	lines := controllertest.Conditions(platform)
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, kind+"=") }); i >= 0 {
		return strings.TrimPrefix(lines[i], kind+"=")
	}
	return ""
}
