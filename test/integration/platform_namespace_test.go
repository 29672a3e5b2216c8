//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// namespaceNow returns the current state of a namespace, or nil if the namespace does not exist.
func namespaceNow(t *testing.T, p *framework.Installation, name string) *corev1.Namespace {
	t.Helper()
	list, err := p.Kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func TestPlatformCreatesNamespaceAndNeverDeletesIt(t *testing.T) {
	t.Parallel()
	name := shared.NewNamespace(t) + "-made"
	shared.CreatePlatform(t, name, v1alpha1.PlatformSpec{Namespace: name, Components: components{task("job")}})
	shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	made := namespaceNow(t, shared, name)
	if made == nil || made.Labels["app.kubernetes.io/part-of"] != name || len(made.OwnerReferences) > 0 {
		t.Fatalf("the namespace is %v, want a namespace with the label part-of and without an owner", made)
	}
	deletePlatform(t, shared, name)
	atGone(t, shared, name, name+"-job")
	if left := namespaceNow(t, shared, name); left == nil || left.UID != made.UID || left.DeletionTimestamp != nil {
		t.Errorf("after the deletion of the Platform the namespace is %v, want it unchanged", left)
	}
	// The Platform does not change an existing namespace.
	shared.CreatePlatform(t, name, v1alpha1.PlatformSpec{Namespace: name, Components: components{task("job")}})
	shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	if now := namespaceNow(t, shared, name); now.ResourceVersion != made.ResourceVersion {
		t.Errorf("the Platform has changed the existing namespace: %v", now)
	}
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestPlatformWithoutComponentsCreatesNamespace(t *testing.T) {
	t.Parallel()
	name := shared.NewNamespace(t) + "-empty"
	shared.CreatePlatform(t, name, v1alpha1.PlatformSpec{Namespace: name})
	shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	if namespaceNow(t, shared, name) == nil {
		t.Error("the namespace was not created")
	}
}

func TestPlatformReportsDeletedNamespaceAndDoesNotRecreateIt(t *testing.T) {
	t.Parallel()
	name := shared.NewNamespace(t) + "-going"
	shared.CreatePlatform(t, name, v1alpha1.PlatformSpec{
		Namespace: name, Components: components{task("job"), task("next", "job")},
	})
	shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	before := namespaceNow(t, shared, name)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	configs := shared.Kube.CoreV1().ConfigMaps(name)
	if _, err := configs.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	platform := shared.PlatformReason(t, name, "NamespaceTerminating")
	if words := "Namespace " + name + " is being deleted, and the operator does not " +
		"create it again"; !strings.Contains(message(platform), words) || platform.Status.Phase != v1alpha1.PlatformPending {
		t.Errorf("phase %s, Ready: %s", platform.Status.Phase, message(platform))
	}
	component(t, shared, name, "job", v1alpha1.ComponentWaiting)
	if _, err := configs.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	platform = shared.PlatformReason(t, name, "NamespaceGone")
	if words := "Create the namespace again with all of these."; !strings.Contains(message(platform),
		words) || platform.Status.Phase != v1alpha1.PlatformFailed {
		t.Errorf("phase %s, Ready: %s", platform.Status.Phase, message(platform))
	}
	shared.UpdatePlatform(t, name, func(p *v1alpha1.Platform) {
		p.Spec.Components = append(p.Spec.Components, task("more"))
	})
	shared.PlatformReason(t, name, "NamespaceGone")
	if now := namespaceNow(t, shared, name); now != nil {
		t.Fatalf("the namespace was created again: %v", now)
	}
	again := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
		},
	}
	again, err := shared.Kube.CoreV1().Namespaces().Create(t.Context(), again, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	platform = shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	if uid := platform.Status.NamespaceUID; uid == nil || *uid != again.UID || again.UID == before.UID {
		t.Errorf("status.namespaceUID is %v, want %s", uid, again.UID)
	}
}

func TestPlatformIsDeletedWhileItsNamespaceTerminates(t *testing.T) {
	t.Parallel()
	name := shared.NewNamespace(t) + "-both"
	shared.CreatePlatform(t, name, v1alpha1.PlatformSpec{
		Namespace: name, Components: components{task("job"), web("web:1", managed, "job")},
	})
	shared.PlatformIn(t, name, v1alpha1.PlatformReady)
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deletePlatform(t, shared, name)
	framework.Eventually(t, "the namespace to be deleted", func(context.Context) (bool, error) {
		return namespaceNow(t, shared, name) == nil, nil
	})
}

func TestPlatformReportsMissingPermissions(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	controller := framework.Launch(t, p.Cluster, "--leader-elect=false")
	defer controller.Terminate()
	without := func(resource string) (restore func()) {
		t.Helper()
		role, err := p.Kube.RbacV1().ClusterRoles().Get(t.Context(), "windlass-controller", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		full := role.DeepCopy()
		for i, rule := range role.Rules {
			for j, name := range rule.Resources {
				if name == resource {
					role.Rules[i].Resources[j] = "nothing"
					role.Rules = append(role.Rules, *rule.DeepCopy())
					last := &role.Rules[len(role.Rules)-1]
					last.Resources, last.Verbs = []string{resource}, []string{"get", "list", "watch"}
				}
			}
		}
		if role, err = p.Kube.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return func() {
			full.ResourceVersion = role.ResourceVersion
			if _, err := p.Kube.RbacV1().ClusterRoles().Update(t.Context(), full, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}

	restore := without("apps")
	p.CreatePlatform(t, "permissions", v1alpha1.PlatformSpec{
		Namespace: "permissions", Components: components{web("web:1", managed), task("job"), task("next", "web")},
	})
	component(t, p, "permissions", "job", "Done")
	platform := p.PlatformReason(t, "permissions", "Forbidden")
	for _, words := range []string{
		"component web: creating App permissions/permissions-web", `cannot create resource "apps"`,
		"Ask the administrator of namespace permissions to grant the permission to the service account of the operator",
	} {
		if !strings.Contains(message(platform), words) {
			t.Errorf("the message of Ready does not contain %q: %s", words, message(platform))
		}
	}
	want := []string{"web App Managed Waiting", "job At Managed Done", "next At Managed Waiting"}
	if got := componentLines(platform); strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("the components of the status are %v, want %v", got, want)
	}
	restore()
	p.PlatformIn(t, "permissions", v1alpha1.PlatformReady)

	restore = without("namespaces")
	p.CreatePlatform(t, "homeless", v1alpha1.PlatformSpec{Namespace: "homeless", Components: components{task("job")}})
	platform = p.PlatformReason(t, "homeless", "Forbidden")
	if words := "Create the namespace yourself, or allow the service account of the operator to create " +
		"namespaces"; !strings.Contains(message(platform), words) || platform.Status.Phase != v1alpha1.PlatformFailed {
		t.Errorf("phase %s, Ready: %s", platform.Status.Phase, message(platform))
	}
	if _, err := p.Kubectl(t.Context(), "", "create", "namespace", "homeless"); err != nil {
		t.Fatal(err)
	}
	p.PlatformIn(t, "homeless", v1alpha1.PlatformReady)
	restore()
}
