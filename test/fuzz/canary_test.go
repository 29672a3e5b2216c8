//go:build integration

package fuzz

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// canaryClass is the StorageClass of the canaries.
const canaryClass = "standard"

// canaries creates an ordinary object of every kind for another tenant, waits until each object is
// Ready or Done, and deletes the objects.
func (c *campaign) canaries(t *testing.T) {
	t.Helper()
	c.rounds++
	name := fmt.Sprintf("canary-%d", c.rounds)
	tenant := c.NewTenant(t)
	namespace := tenant.Namespace
	c.canary = namespace
	c.CreateSecret(t, namespace, "server", map[string]string{
		"host": "127.0.0.1", "port": c.server.Port, "username": "postgres", "password": c.server.Password,
		"sslmode": "disable",
	})
	db := framework.SmallestDatabase()
	db.DeletionPolicy, db.Storage.StorageClassName = v1alpha1.DeletionDelete, ptr.To(canaryClass)
	plain := framework.ProbedApp("registry.example.com/canary:1")

	tenant.CreateApp(t, namespace, "app", plain)
	tenant.CreateDatabase(t, namespace, "db", db)
	tenant.CreateExternalDatabase(t, namespace, "outside", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: name,
		DeletionPolicy: v1alpha1.DeletionDelete,
	})
	tenant.Create(t, namespace, "at", "true", nil)
	made := name + "-made" // the namespace that the Platform creates
	c.CreatePlatform(t, name, v1alpha1.PlatformSpec{
		Namespace: made, Components: []v1alpha1.PlatformComponent{{Name: "web", App: &plain}},
	})

	tenant.AppIn(t, namespace, "app", v1alpha1.AppReady)
	tenant.DatabaseIn(t, namespace, "db", v1alpha1.DatabaseReady)
	tenant.ExternalDatabaseIn(t, namespace, "outside", v1alpha1.ExternalDatabaseReady)
	if at := tenant.InPhase(t, namespace, "at", cnatv1.AtDone); framework.Reason(at, cnatv1.AtComplete) == "" {
		t.Errorf("the At of the canaries is Done, but not Complete: %+v", at.Status)
	}
	c.PlatformIn(t, name, v1alpha1.PlatformReady)
	c.deleteCanaries(t, name, namespace, made)
}

// deleteCanaries deletes the canaries, waits until the API server has removed them, and deletes their namespaces. made
// is the namespace that the Platform created.
func (c *campaign) deleteCanaries(t *testing.T, platform, namespace, made string) {
	t.Helper()
	windlass := c.Windlass.WindlassV1alpha1()
	for _, err := range []error{
		windlass.Apps(namespace).Delete(t.Context(), "app", metav1.DeleteOptions{}),
		windlass.Databases(namespace).Delete(t.Context(), "db", metav1.DeleteOptions{}),
		windlass.ExternalDatabases(namespace).Delete(t.Context(), "outside", metav1.DeleteOptions{}),
		c.Windlass.CnatV1().Ats(namespace).Delete(t.Context(), "at", metav1.DeleteOptions{}),
		windlass.Platforms().Delete(t.Context(), platform, metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Fatalf("deleting a canary: %v", err)
		}
	}
	framework.Eventually(t, "the canaries to be deleted", func(ctx context.Context) (bool, error) {
		_, err1 := windlass.Apps(namespace).Get(ctx, "app", metav1.GetOptions{})
		_, err2 := windlass.Databases(namespace).Get(ctx, "db", metav1.GetOptions{})
		_, err3 := windlass.ExternalDatabases(namespace).Get(ctx, "outside", metav1.GetOptions{})
		_, err4 := c.Windlass.CnatV1().Ats(namespace).Get(ctx, "at", metav1.GetOptions{})
		_, err5 := windlass.Platforms().Get(ctx, platform, metav1.GetOptions{})
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
	for _, name := range []string{namespace, made} {
		if err := c.Kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace of a canary: %v", err)
		}
	}
}
