//go:build integration

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// platformWithExternalDatabase creates a Platform. Its component db is an ExternalDatabase with deletionPolicy Delete,
// and component web depends on db.
func platformWithExternalDatabase(t *testing.T) *external {
	t.Helper()
	e := newExternal(t, ownServer(t), nil)
	spec := e.spec()
	shared.CreatePlatform(t, e.namespace, v1alpha1.PlatformSpec{Namespace: e.namespace, Components: components{
		{Name: "db", ExternalDatabase: &spec}, web("web:1", managed, "db"),
	}})
	shared.PlatformIn(t, e.namespace, v1alpha1.PlatformReady)
	return e
}

func TestComponentIsRemovedOnlyAfterChildIsDeleted(t *testing.T) {
	t.Parallel()
	e := platformWithExternalDatabase(t)
	e.server.Stop()
	shared.UpdatePlatform(t, e.namespace, func(p *v1alpha1.Platform) {
		p.Spec.Components[0].ManagementState, p.Spec.Components[1].ManagementState = removed, removed
	})
	component(t, shared, e.namespace, "web", v1alpha1.ComponentRemoved)
	waits := func(p *v1alpha1.Platform) bool {
		db := p.Status.Components[0]
		return p.Status.Phase == v1alpha1.PlatformFailed && db.Phase == v1alpha1.ComponentRemoving &&
			strings.Contains(db.Message, "ExternalDatabase "+e.namespace+"-db is being deleted. Its condition Ready says:") &&
			strings.Contains(db.Message, "The connection to the server in Secret server failed: ")
	}
	platform := shared.PlatformWith(t, e.namespace, "waiting for the server", waits)
	if !strings.Contains(message(platform), "db is Removing") {
		t.Errorf("phase %s, Ready: %s", platform.Status.Phase, message(platform))
	}
	if err := e.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	shared.PlatformIn(t, e.namespace, v1alpha1.PlatformReady)
	component(t, shared, e.namespace, "db", v1alpha1.ComponentRemoved)
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}

func TestPlatformDeletionReportsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	e := platformWithExternalDatabase(t)
	e.server.Stop()
	if err := shared.Windlass.WindlassV1alpha1().Platforms().Delete(t.Context(), e.namespace,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	platform := shared.PlatformWith(t, e.namespace, "waiting for the server", func(p *v1alpha1.Platform) bool {
		return strings.Contains(message(p), "The connection to the server in Secret server failed: ")
	})
	words := "Removing components: 1 left. db is Removing: ExternalDatabase " + e.namespace + "-db is being deleted. " +
		"Its condition Ready says:"
	if !strings.Contains(message(platform), words) {
		t.Errorf("the message of Ready does not contain %q: %s", words, message(platform))
	}
	if platform.Status.Phase != v1alpha1.PlatformDeleting || reason(platform) != "RemovingComponents" {
		t.Errorf("phase %s, reason %s", platform.Status.Phase, reason(platform))
	}
	if err := e.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	platformGone(t, shared, e.namespace)
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}

func TestPlatformDeletionKeepsLateUnmanagedComponent(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(t *testing.T, namespace string){
		"before the Platform is deleted": func(t *testing.T, namespace string) {
			t.Helper()
			changeState(t, namespace, unmanaged)
			deletePlatform(t, shared, namespace)
		},
		"while its dependent is being deleted": func(t *testing.T, namespace string) {
			t.Helper()
			const hold = "example.com/hold"
			ats := shared.Windlass.CnatV1().Ats(namespace)
			patch := func(finalizers string) {
				t.Helper()
				if _, err := ats.Patch(t.Context(), namespace+"-job", types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			patch(`["` + hold + `"]`)
			if err := shared.Windlass.WindlassV1alpha1().Platforms().Delete(t.Context(), namespace,
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			component(t, shared, namespace, "job", v1alpha1.ComponentRemoving)
			changeState(t, namespace, unmanaged)
			patch("null")
			platformGone(t, shared, namespace)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
				Namespace: namespace, Components: components{web("web:1", managed), task("job", "web")},
			})
			shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			made := childApp(t, shared, namespace, "web")
			act(t, namespace)
			if left := childApp(t, shared, namespace, "web"); left == nil || left.UID != made.UID ||
				left.DeletionTimestamp != nil || len(left.OwnerReferences) > 0 {
				t.Errorf("the App of the Unmanaged component is %v, want it released and not deleted", left)
			}
		})
	}
}
