//go:build integration

package integration

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/test/framework"
)

// checkPermissions returns an error if the controller lacked a permission in any test, or has a permission that it used
// in no test. It runs after all tests.
func checkPermissions(ctx context.Context) error {
	used := map[string]bool{}
	rejected, err := shared.Requests(func(r framework.Request) bool {
		if r.User.Username != controllerUser || r.ObjectRef.Resource == "" {
			return false
		}
		resource := r.ObjectRef.Resource
		if r.ObjectRef.Subresource != "" {
			resource += "/" + r.ObjectRef.Subresource
		}
		used[r.Verb+" "+resource] = true
		return r.Unauthorized()
	})
	if err != nil {
		return err
	}
	if len(rejected) > 0 {
		return fmt.Errorf("the controller lacks the permissions for these requests: %v", rejected)
	}
	if flag.Lookup("test.run").Value.String() != "" {
		return nil // some tests did not run, so some permissions may be unused
	}
	granted, err := grantedPermissions(ctx)
	if err != nil {
		return err
	}
	for _, permission := range []string{"delete leases", "update configmaps"} { // only with --shards: see test/sharding
		delete(granted, permission)
	}
	maps.DeleteFunc(granted, func(permission string, _ bool) bool {
		// an admission plugin checks the permission to update finalizers, so no request uses it
		return used[permission] || strings.HasSuffix(permission, "/finalizers")
	})
	if len(granted) > 0 {
		return fmt.Errorf("no test uses these permissions of the controller: %v", slices.Sorted(maps.Keys(granted)))
	}
	return nil
}

// grantedPermissions returns the permissions of the controller's roles, without the verb list: informers list through a
// watch, and send a list request only if the API server cannot stream.
func grantedPermissions(ctx context.Context) (map[string]bool, error) {
	permissions := map[string]bool{}
	add := func(rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if verb != "list" {
						permissions[verb+" "+resource] = true
					}
				}
			}
		}
	}
	for _, name := range []string{"windlass-controller", "windlass-controller-webhook"} {
		role, err := shared.Kube.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		add(role.Rules)
	}
	for namespace, name := range map[string]string{
		"windlass-system": "windlass-controller", metav1.NamespaceSystem: "windlass-controller-cluster-lease",
	} {
		role, err := shared.Kube.RbacV1().Roles(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		add(role.Rules)
	}
	return permissions, nil
}
