//go:build integration

package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// web returns a component that is an App.
func web(name string) v1alpha1.PlatformComponent {
	app := framework.ProbedApp("registry.example.com/web:1")
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), App: &app}
}

// platformIn creates a Platform with the name of its namespace, and returns it when it is Ready.
func platformIn(t *testing.T, namespace string, components ...v1alpha1.PlatformComponent) *v1alpha1.Platform {
	t.Helper()
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: components})
	return shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
}

// TestPlatformDoesNotRecreateIsolatedNamespace deletes the namespace of a Platform. A new namespace would lack the Pod
// Security labels of the deleted namespace.
func TestPlatformDoesNotRecreateIsolatedNamespace(t *testing.T) {
	t.Parallel()
	name := shared.NewNamespace(t) + "-isolated"
	isolated := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		},
	}
	namespaces := shared.Kube.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), isolated, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	platformIn(t, name, web("web"))
	if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shared.PlatformReason(t, name, "NamespaceGone")
	shared.UpdatePlatform(t, name, func(p *v1alpha1.Platform) {
		p.Spec.Components = append(p.Spec.Components, web("more"))
	})
	shared.PlatformReason(t, name, "NamespaceGone")
	if now, err := namespaces.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the namespace was created again as %v (%v)", now.ObjectMeta, err)
	}
	isolated.ResourceVersion = ""
	again, err := namespaces.Create(t.Context(), isolated, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	platform := shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	if uid := platform.Status.NamespaceUID; uid == nil || *uid != again.UID {
		t.Errorf("status.namespaceUID is %v, want %s", uid, again.UID)
	}
	if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestPlatformCannotUseSystemNamespaces creates Platforms for the namespaces kube-system and windlass-system.
func TestPlatformCannotUseSystemNamespaces(t *testing.T) {
	t.Parallel()
	platforms := shared.Windlass.WindlassV1alpha1().Platforms()
	system := &v1alpha1.Platform{
		ObjectMeta: metav1.ObjectMeta{Name: "system"}, Spec: v1alpha1.PlatformSpec{
			Namespace: "kube-system", Components: []v1alpha1.PlatformComponent{web("web")},
		},
	}
	if _, err := platforms.Create(t.Context(), system, metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "must not begin with kube-") {
		t.Errorf("creating a Platform for kube-system: got %v, want an Invalid error", err)
	}
	shared.CreatePlatform(t, "own", v1alpha1.PlatformSpec{
		Namespace: "windlass-system", Components: []v1alpha1.PlatformComponent{web("web")},
	})
	shared.PlatformReason(t, "own", "NamespaceNotAllowed")
	if apps, err := shared.Windlass.WindlassV1alpha1().Apps("windlass-system").List(t.Context(),
		metav1.ListOptions{}); err != nil || len(apps.Items) > 0 {
		t.Errorf("the operator has created %v in windlass-system (%v)", apps.Items, err)
	}
	deletePlatform(t, "own")
}

func deletePlatform(t *testing.T, name string) {
	t.Helper()
	platforms := shared.Windlass.WindlassV1alpha1().Platforms()
	if err := platforms.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "Platform "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		_, err := platforms.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
	})
}

const forgeries = 200

// forge creates n Apps that look like children of a Platform. Each App has an owner reference to the Platform, a
// record copied from the real child, and a finalizer that no controller removes.
func forge(t *testing.T, tenant *framework.Tenant, platform *v1alpha1.Platform, n int) {
	t.Helper()
	apps := tenant.Windlass.WindlassV1alpha1().Apps(tenant.Namespace)
	genuine, err := apps.Get(t.Context(), platform.Name+"-web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("%s-forged%d", platform.Name, i)
		record := strings.ReplaceAll(genuine.Annotations["windlass.dev/last-applied"], genuine.Name, name)
		app := &v1alpha1.App{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: genuine.Labels, Finalizers: []string{"example.com/held"},
				Annotations:     map[string]string{"windlass.dev/last-applied": record, "windlass.dev/paused": "true"},
				OwnerReferences: genuine.OwnerReferences,
			},
			Spec: v1alpha1.AppSpec{Image: "registry.example.com/forged:1", Replicas: ptr.To[int32](0)},
		}
		if _, err := apps.Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgedComponentsDoNotDelayPlatform creates hundreds of Apps that look like children of a Platform and have a
// finalizer.
func TestForgedComponentsDoNotDelayPlatform(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	tenant := shared.NewTenant(t)
	platform := platformIn(t, tenant.Namespace, web("web"))
	forge(t, tenant, platform, forgeries)
	t.Cleanup(func() { releaseForged(t, tenant) })
	platform = shared.UpdatePlatform(t, platform.Name, func(p *v1alpha1.Platform) {
		p.Spec.Components = append(p.Spec.Components, web("more"))
	})
	platform = shared.PlatformIn(t, platform.Name, v1alpha1.PlatformReady)
	if n := len(platform.Status.Components); n != 2 {
		t.Errorf("the status has %d components, want 2", n)
	}
	deletePlatform(t, platform.Name)
	// The forged Apps are paused. The operator writes only their statuses and Events.
	about, err := shared.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.ObjectRef.Namespace == tenant.Namespace &&
			strings.Contains(r.ObjectRef.Name, "-forged") &&
			r.ObjectRef.Subresource != "status" && r.ObjectRef.Resource != "events"
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(about) > 0 {
		t.Errorf("the operator sent %d requests about forged components, such as %v", len(about), about[0])
	}
}

// releaseForged removes the finalizers of a tenant's Apps, so that the namespace can be deleted.
func releaseForged(t *testing.T, tenant *framework.Tenant) {
	t.Helper()
	apps := shared.Windlass.WindlassV1alpha1().Apps(tenant.Namespace)
	list, err := apps.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for i := range list.Items {
		app := &list.Items[i]
		app.Finalizers = nil
		if _, err := apps.Update(context.Background(), app,
			metav1.UpdateOptions{}); framework.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			t.Error(err)
		}
	}
}
