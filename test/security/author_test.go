//go:build integration

package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// author is a user who may write all Platforms, and has the role view in one namespace.
type author struct {
	*framework.Tenant
	account string // the name of the ServiceAccount
	user    string // the name of the user in requests
}

// newAuthor returns an author in a new namespace. It returns when the API server enforces the policy
// windlass-platform-authors.
func newAuthor(t *testing.T) author {
	t.Helper()
	a := author{Tenant: shared.TenantIn(t, shared.NewNamespace(t), "view"), account: "tenant-view"}
	a.user = "system:serviceaccount:" + a.Namespace + ":" + a.account
	name := metav1.ObjectMeta{Name: a.Namespace + "-platforms"}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"windlass.dev"}, Resources: []string{"platforms"},
		Verbs: []string{"get", "create", "update", "patch", "delete"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: clusterRole(name.Name), Subjects: a.subjects()}
	rbac := shared.Kube.RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the API server to enforce the policy", func(ctx context.Context) (bool, error) {
		err := a.create(ctx, "enforced", a.Namespace, metav1.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "windlass-platform-authors"), nil
	})
	return a
}

func (a author) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.account}}
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

// grant gives the author the role edit in the author's namespace, which includes the permission to create Pods.
func (a author) grant(t *testing.T) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"}, RoleRef: clusterRole("edit"), Subjects: a.subjects(),
	}
	bindings := shared.Kube.RbacV1().RoleBindings(a.Namespace)
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the author to have the role edit", func(ctx context.Context) (bool, error) {
		return a.create(ctx, "allowed", a.Namespace, metav1.DryRunAll) == nil, nil
	})
}

// create creates a Platform with one App, which runs with a service account of a namespace.
func (a author) create(ctx context.Context, name, namespace string, dryRun ...string) error {
	component := web("web")
	component.App.ServiceAccountName = "default"
	platform := &v1alpha1.Platform{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.PlatformSpec{Namespace: namespace, Components: []v1alpha1.PlatformComponent{component}},
	}
	_, err := a.Windlass.WindlassV1alpha1().Platforms().Create(ctx, platform, metav1.CreateOptions{DryRun: dryRun})
	return err
}

// setImage changes the image of a Platform's App.
func (a author) setImage(t *testing.T, name, image string) error {
	t.Helper()
	return a.patch(t, name, `{"spec":{"components":[{"name":"web","app":{"image":"`+image+`"}}]}}`)
}

// patch sends a merge patch of a Platform.
func (a author) patch(t *testing.T, name, patch string) error {
	t.Helper()
	platforms := a.Windlass.WindlassV1alpha1().Platforms()
	_, err := platforms.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// wantDenied checks that the policy rejected a write to a Platform for a namespace, and that the error says why.
func (a author) wantDenied(t *testing.T, err error, name, namespace string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want a Forbidden error", err)
		return
	}
	for _, want := range []string{
		"'windlass-platform-authors'", "Platform " + name + " runs Pods in namespace " + namespace + ",",
		"in which user " + a.user + " may not create Pods.",
		"Ask an administrator of the cluster for this permission, or ask a user who has it to apply the Platform.",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
}

// TestPlatformNeedsAuthorWhoMayCreatePods writes Platforms as a user who may write Platforms, but may not create Pods.
func TestPlatformNeedsAuthorWhoMayCreatePods(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	mine, stored := a.Namespace+"-mine", a.Namespace
	a.wantDenied(t, a.create(t.Context(), mine, a.Namespace), mine, a.Namespace)
	a.wantDenied(t, a.create(t.Context(), mine, a.Namespace, metav1.DryRunAll), mine, a.Namespace)

	platformIn(t, stored, web("web"))
	a.wantDenied(t, a.setImage(t, stored, "registry.example.com/attack:1"), stored, stored)
	// The operator adds and removes its finalizer in this way.
	for _, finalizers := range []string{`"windlass.dev/platform","example.com/more"`, `"windlass.dev/platform"`} {
		if err := a.patch(t, stored, `{"metadata":{"finalizers":[`+finalizers+`]}}`); err != nil {
			t.Errorf("patching the metadata of a Platform: %v", err)
		}
	}
}

// TestPlatformRunsPodsOnlyWhereItsAuthorMay writes Platforms as a user who may write Platforms, and may create Pods in
// one namespace.
func TestPlatformRunsPodsOnlyWhereItsAuthorMay(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	a.grant(t)
	other, missing := shared.NewNamespace(t), a.Namespace+"-missing"
	for _, namespace := range []string{other, missing} {
		a.wantDenied(t, a.create(t.Context(), other, namespace), other, namespace)
	}
	if err := a.create(t.Context(), a.Namespace, a.Namespace); err != nil {
		t.Fatal(err)
	}
	shared.PlatformIn(t, a.Namespace, v1alpha1.PlatformReady)
	if err := a.setImage(t, a.Namespace, "registry.example.com/web:2"); err != nil {
		t.Error(err)
	}
	shared.PlatformIn(t, a.Namespace, v1alpha1.PlatformReady)
	deletePlatform(t, a.Namespace) // the operator removes its finalizer
}

// TestPolicyAffordsLargestPlatform writes a Platform with as many components as the schema allows, and about as many
// values as etcd can store in one object. The policy must compare all values within the cost budget of CEL.
func TestPolicyAffordsLargestPlatform(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	a := newAuthor(t)
	a.grant(t)
	platform := &v1alpha1.Platform{
		ObjectMeta: metav1.ObjectMeta{Name: a.Namespace, Annotations: map[string]string{"windlass.dev/paused": "true"}},
		Spec:       v1alpha1.PlatformSpec{Namespace: a.Namespace},
	}
	for i := range 256 {
		task := &cnatv1.AtSpec{Schedule: "2100-01-01T00:00:00Z", Command: []string{"true"}}
		for j := range 40 {
			task.Env = append(task.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: strings.Repeat("a", 16)})
		}
		name := v1alpha1.ComponentName(fmt.Sprintf("task-%d", i))
		platform.Spec.Components = append(platform.Spec.Components, v1alpha1.PlatformComponent{Name: name, At: task})
	}
	platforms := a.Windlass.WindlassV1alpha1().Platforms()
	if _, err := platforms.Create(t.Context(), platform, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := platforms.Delete(context.Background(), platform.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	// A patch takes seconds, and exceeds the limit of the API server while the machine is busy.
	framework.Eventually(t, "the metadata to change", func(context.Context) (bool, error) {
		err := a.patch(t, platform.Name, `{"metadata":{"labels":{"changed":"yes"}}}`)
		return err == nil, err
	})
	a.UpdatePlatform(t, platform.Name, func(p *v1alpha1.Platform) {
		p.Spec.Components[255].At.Command = []string{"false"}
	})
}
