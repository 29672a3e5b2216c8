package platform

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const updateStatus = "update platforms/status shop"

// example returns a Platform with the given components.
func example(components ...v1alpha1.PlatformComponent) *v1alpha1.Platform {
	return &v1alpha1.Platform{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop", UID: "shop-uid", ResourceVersion: "1", Generation: 1, Finalizers: []string{finalizerName},
		},
		Spec: v1alpha1.PlatformSpec{Namespace: "shops", Components: components},
	}
}

// app returns a Managed component that is an App. The functions below do the same for the other kinds.
func app(name string, dependencies ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{
		Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: dependencies,
		App: &v1alpha1.AppSpec{Image: name + ":1", Port: 8080},
	}
}

func database(name string, dependencies ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{
		Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: dependencies,
		Database: &v1alpha1.DatabaseSpec{Version: "17"},
	}
}

func externalDatabase(name string, dependencies ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{
		Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: dependencies,
		ExternalDatabase: &v1alpha1.ExternalDatabaseSpec{DatabaseName: name},
	}
}

func at(name string, dependencies ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{
		Name: v1alpha1.ComponentName(name), ManagementState: v1alpha1.Managed, DependsOn: dependencies,
		At: &cnatv1.AtSpec{Schedule: "2020-01-01T00:00:00Z"},
	}
}

// removed returns a component in the management state Removed.
func removed(c v1alpha1.PlatformComponent) v1alpha1.PlatformComponent {
	c.ManagementState = v1alpha1.Removed
	return c
}

// unmanaged returns a component in the management state Unmanaged.
func unmanaged(c v1alpha1.PlatformComponent) v1alpha1.PlatformComponent {
	c.ManagementState = v1alpha1.Unmanaged
	return c
}

// namespace returns the namespace of example.
func namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shops"}}
}

// terminatingNamespace returns the namespace of example while it is being deleted.
func terminatingNamespace() *corev1.Namespace {
	n := namespace()
	n.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return n
}

// childState is a function that changes a pending child into another state.
type childState func(child controller.Object)

// pending gives a child the status of a child that is not Ready yet.
func pending(child controller.Object) {
	setPhase(child, "Pending")
	conditions.False(child.StatusConditions(), conditions.Ready, "Unavailable", "It is not available yet.")
}

// ready sets the status of a Ready child.
func ready(child controller.Object) {
	setPhase(child, "Ready")
	conditions.True(child.StatusConditions(), conditions.Ready, "Available", "")
}

// outdated changes a child so that its status says Ready for an earlier generation.
func outdated(child controller.Object) {
	ready(child)
	child.SetGeneration(child.GetGeneration() + 1)
}

// degraded sets the status of a child that is Degraded and makes progress.
func degraded(child controller.Object) {
	setPhase(child, "Failed")
	conditions.True(child.StatusConditions(), conditions.Degraded, "Broken", "It is broken.")
}

// stalled sets the status of a child that is Degraded and makes no progress.
func stalled(child controller.Object) {
	degraded(child)
	conditions.True(child.StatusConditions(), conditions.Stalled, "Broken", "It is broken.")
}

// deleting marks a child as being deleted, and adds the finalizer of another controller.
func deleting(child controller.Object) {
	child.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	child.SetFinalizers([]string{"example.com/slow"})
}

// released removes the owner reference from a child.
func released(child controller.Object) { child.SetOwnerReferences(nil) }

// shared keeps the Platform as an owner of a child, but not as its controller.
func shared(child controller.Object) {
	references := child.GetOwnerReferences()
	references[0].Controller = nil
	child.SetOwnerReferences(references)
}

// copied gives a child the record of a child with another name, as if a user had copied that child.
func copied(child controller.Object) {
	record := strings.ReplaceAll(child.GetAnnotations()[children.RecordAnnotation], child.GetName(), "shop-original")
	child.SetAnnotations(map[string]string{children.RecordAnnotation: record})
}

// foreign changes a child into an object of a user with the same name.
func foreign(child controller.Object) {
	child.SetOwnerReferences(nil)
	child.SetAnnotations(nil)
}

// adoptable changes a child into an object of a user that lets the Platform shop adopt it.
func adoptable(child controller.Object) {
	foreign(child)
	child.SetAnnotations(map[string]string{"windlass.dev/adopt": "Platform/shop"})
}

// setPhase sets the phase of a child.
func setPhase(child controller.Object, phase string) {
	switch child := child.(type) {
	case *v1alpha1.App:
		child.Status.Phase = v1alpha1.AppPhase(phase)
	case *v1alpha1.Database:
		child.Status.Phase = v1alpha1.DatabasePhase(phase)
	case *v1alpha1.ExternalDatabase:
		child.Status.Phase = v1alpha1.ExternalDatabasePhase(phase)
	}
}

// fixture reconciles the Platform of example on fake clientsets.
type fixture struct {
	*kindtest.Fixture[*v1alpha1.Platform]
}

// newFixture returns a fixture for platform in a cluster that also has the objects others. The status lists
// the components of the spec, as after a first reconcile.
func newFixture(t testing.TB, platform *v1alpha1.Platform, others ...runtime.Object) fixture {
	t.Helper()
	platform = platform.DeepCopy()
	for i := range platform.Spec.Components {
		announceIn(platform, &platform.Spec.Components[i])
	}
	declared := func(c kinds.Cluster, r controller.Runtime) (controller.Kind[*v1alpha1.Platform], error) {
		return declare(c, r, Options{OwnNamespaces: []string{"operators"}})
	}
	return fixture{kindtest.New(t, declared, platform, others...)}
}

// announceIn lists a component in the status.
func announceIn(platform *v1alpha1.Platform, c *v1alpha1.PlatformComponent) {
	isListed := slices.ContainsFunc(platform.Status.Components, func(s v1alpha1.PlatformComponentStatus) bool {
		return s.Name == c.Name && s.Kind == kindOf(c)
	})
	if !isListed && kindOf(c) != "" {
		platform.Status.Components = append(platform.Status.Components, v1alpha1.PlatformComponentStatus{
			Name: c.Name, Kind: kindOf(c), ManagementState: c.ManagementState,
		})
	}
}

// child is a component, with the state of its child. The spec need not list the component.
type child struct {
	component v1alpha1.PlatformComponent
	state     childState
}

// addChild lists a component in the status and stores its child. The child is pending, and then each of
// states changes it.
func (f fixture) addChild(c v1alpha1.PlatformComponent, states ...childState) {
	f.T.Helper()
	f.Change(func(platform *v1alpha1.Platform) { announceIn(platform, &c) })
	f.storeChild(c, states...)
}

// storeChild stores a child like addChild, and leaves the status of the Platform as it is.
func (f fixture) storeChild(c v1alpha1.PlatformComponent, states ...childState) {
	f.T.Helper()
	platform := f.Object()
	kind, _ := newKinds(f.Windlass, f.Kinds, controller.NewTracker()).named(kindOf(&c))
	owner := children.Owner{Object: platform, Kind: groupVersionKind}
	object, err := kind.Ensure(f.T.Context(), owner, desiredChild(platform, &c), nil)
	if err != nil {
		f.T.Fatal(err)
	}
	*object.StatusObservedGeneration() = object.GetGeneration()
	pending(object)
	for _, state := range states {
		state(object)
	}
	f.Store(object)
}

// app returns the stored App of a component, or nil.
func (f fixture) app(component string) *v1alpha1.App {
	f.T.Helper()
	return kindtest.Get[*v1alpha1.App](f.Cluster, "shops", "shop-"+component)
}

// delete deletes the Platform as a user does, so that only its finalizer keeps it.
func (f fixture) delete() {
	f.T.Helper()
	err := f.Windlass.WindlassV1alpha1().Platforms().Delete(f.T.Context(), f.Key.Name, metav1.DeleteOptions{})
	if err != nil {
		f.T.Fatal(err)
	}
}

// settle reconciles until a reconcile writes nothing, and returns all writes. The test fails after 5
// reconciles that write.
func (f fixture) settle() (writes []string) {
	f.T.Helper()
	for range 5 {
		f.CollectGarbage()
		r := f.Reconcile()
		if len(r.Writes) == 0 {
			return writes
		}
		writes = append(writes, r.Writes...)
	}
	f.T.Errorf("each of 5 reconciles wrote something: %q", writes)
	return writes
}

// platformReads returns the number of requests that read Platforms.
func (f fixture) platformReads() int { return controllertest.Reads(f.Windlass.Actions(), "platforms") }

// checkCondition fails the test unless a line of controllertest.Conditions begins with want.
func (f fixture) checkCondition(want string) {
	f.T.Helper()
	lines := controllertest.Conditions(f.Object())
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
		f.T.Errorf("conditions: wanted a condition that begins with %q, got %q", want, lines)
	}
}

// checkComponents fails the test unless the status has the given components. It does not compare their
// messages.
func (f fixture) checkComponents(want ...v1alpha1.PlatformComponentStatus) {
	f.T.Helper()
	controllertest.Equal(f.T, "components", want, f.Object().Status.Components,
		cmpopts.IgnoreFields(v1alpha1.PlatformComponentStatus{}, "Message"))
}

// reported returns the status of a component without its message.
func reported(
	name, kind string, state v1alpha1.ManagementState, phase v1alpha1.PlatformComponentPhase, reason string,
) v1alpha1.PlatformComponentStatus {
	return v1alpha1.PlatformComponentStatus{
		Name: v1alpha1.ComponentName(name), Kind: kind, ManagementState: state, Phase: phase, Reason: reason,
	}
}
