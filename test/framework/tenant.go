package framework

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Tenant is a user who has one of Kubernetes' own roles, such as edit, in one namespace. artifacts/rbac/users.yaml adds
// permissions for Windlass' kinds to these roles.
type Tenant struct {
	*Clients
	// Dynamic is a client that also accepts objects that the Go types of Windlass cannot hold.
	Dynamic dynamic.Interface
	// Namespace is the namespace of the tenant.
	Namespace string
	// Config is the tenant's client configuration, without a rate limit.
	Config *rest.Config
}

// NewTenant returns a user with the role edit in a new namespace.
func (p *Installation) NewTenant(t *testing.T) *Tenant {
	t.Helper()
	return p.TenantIn(t, p.NewNamespace(t), "edit")
}

// TenantIn returns a user with a role, such as view, in a namespace.
func (p *Installation) TenantIn(t *testing.T, namespace, role string) *Tenant {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant-" + role}}
	if _, err := p.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the ServiceAccount of a tenant: %v", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	}
	if _, err := p.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatalf("binding a tenant to ClusterRole %s: %v", role, err)
	}
	config := p.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account.Name),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	w, err := NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tenant := &Tenant{Clients: w, Dynamic: objects, Namespace: namespace, Config: config}
	// A controller of Kubernetes adds the permissions to the roles some time after Install.
	Eventually(t, "the tenant to have its role", func(ctx context.Context) (bool, error) {
		_, err := tenant.Windlass.WindlassV1alpha1().Apps(namespace).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	return tenant
}
