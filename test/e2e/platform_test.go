//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestPlatformStartsAndStopsComponentsInOrder checks that a task fills the database before the App starts,
// and that the App's Pods are deleted before the Database.
func TestPlatformStartsAndStopsComponentsInOrder(t *testing.T) {
	t.Parallel()
	name := here.NewNamespace(t)
	db := postgresSpec()
	db.DeletionPolicy = v1alpha1.DeletionDelete
	psql := func(sql string) *v1.AtSpec {
		return &v1.AtSpec{
			Schedule: "2020-01-01T00:00:00Z", Image: cmp.Or(db.Image, "postgres:"+db.Version),
			EnvFrom: []corev1.EnvFromSource{
				{
					SecretRef: &corev1.SecretEnvSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: name + "-db-credentials"},
					},
				},
			},
			Env:         []corev1.EnvVar{{Name: "SQL", Value: sql}},
			PodTemplate: rootCert(name + "-db-credentials"),
			Command:     []string{"sh", "-c", `psql "$uri" -v ON_ERROR_STOP=1 -qAtc "$SQL" 2>&1`},
		}
	}
	// Each task fails unless the previous task has succeeded, and an At runs once.
	here.CreatePlatform(t, name, v1alpha1.PlatformSpec{Namespace: name, Components: []v1alpha1.PlatformComponent{
		{Name: "web", DependsOn: []v1alpha1.ComponentName{"fill"}, App: &v1alpha1.AppSpec{
			Image:       cmp.Or(os.Getenv("E2E_APP_IMAGE"), "nginxinc/nginx-unprivileged:1.29"),
			Probe:       &v1alpha1.AppProbe{Path: "/"},
			DatabaseRef: &v1alpha1.DatabaseReference{Kind: "Database", Name: name + "-db"},
		}},
		{Name: "fill", DependsOn: []v1alpha1.ComponentName{"schema"}, At: psql("insert into orders values (1), (2)")},
		{Name: "schema", DependsOn: []v1alpha1.ComponentName{"db"}, At: psql("create table orders (id int)")},
		{Name: "db", Database: &db},
	}})
	here.PlatformIn(t, name, v1alpha1.PlatformReady)
	if err := here.Windlass.WindlassV1alpha1().Platforms().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the deletion of the Database to begin", func(ctx context.Context) (bool, error) {
		db, err := here.Windlass.WindlassV1alpha1().Databases(name).Get(ctx, name+"-db", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && db.DeletionTimestamp != nil, framework.IgnoreNotFound(err)
	})
	pods, err := here.Kube.CoreV1().Pods(name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if !strings.HasPrefix(pod.Name, name+"-db-") {
			t.Errorf("the Database is being deleted while Pod %s exists, in phase %s", pod.Name, pod.Status.Phase)
		}
	}
	framework.Eventually(t, "the Platform to be deleted", func(ctx context.Context) (bool, error) {
		_, err := here.Windlass.WindlassV1alpha1().Platforms().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
	})
	if left, err := kubectl(t.Context(), "", "get", "pods,pvc,ats,apps,databases,externaldatabases", "-n", name, "-o",
		"name"); err != nil || left != "" {
		t.Errorf("after the deletion of the Platform these objects remain: %s (%v)", left, err)
	}
}
