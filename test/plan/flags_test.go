//go:build integration

package plan

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPlanUsesFlagsOfOperator plans a Database without an image, whose image depends on the flags of the operator.
func TestPlanUsesFlagsOfOperator(t *testing.T) {
	namespace, system, copied := shared.NewNamespace(t), shared.NewNamespace(t), shared.NewNamespace(t)
	limited, elsewhere, variable := shared.NewNamespace(t), shared.NewNamespace(t), shared.NewNamespace(t)
	labels := map[string]string{"app.kubernetes.io/name": "windlass", "app.kubernetes.io/component": "controller"}
	deploy := func(in, name, image string, more ...string) {
		replicas := int32(0)
		_, err := shared.Kube.AppsV1().Deployments(in).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{
				MatchLabels: labels,
			}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "proxy", Image: "proxy:1", Args: []string{"--postgresql-image=of-another-container"}},
					{
						Name: "controller", Image: "controller:1", Command: []string{"/controller", "--at-image=at:2"},
						Args: append(more, "--logging-format=json", "-v=2", "--workers", "5",
							"--postgresql_image="+image, "--external-database-allowed-hosts=a.example.com,10.0.0.0/8"),
					},
				}},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	deploy(system, "windlass-controller", "of-operator")
	deploy(limited, "windlass-controller", "of-limited", "--namespace="+namespace)
	deploy(elsewhere, "windlass-controller", "of-elsewhere", "--namespace=elsewhere")
	deploy(variable, "windlass-controller", "$(IMAGE)")
	deploy(copied, "a", "a")
	deploy(copied, "b", "b")
	tenant, _ := user(t, namespace, "tenant")
	if _, err := shared.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "tenant"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const database = "apiVersion: windlass.dev/v1alpha1\nkind: Database\nmetadata: {name: db}\nspec: {version: '17', " +
		"storage: {size: 1Gi}}\n"
	const platform = "apiVersion: windlass.dev/v1alpha1\nkind: Platform\nmetadata: {name: shop}\nspec: {namespace: " +
		"NAMESPACE, components: [{name: task, at: {schedule: '2020-01-01T00:00:00Z', command: ['true']}}]}\n"
	for name, c := range map[string]struct {
		kubeconfig, input string
		flags             []string
		says              string
	}{
		"a flag in the command": {
			shared.Kubeconfig(), strings.ReplaceAll(platform, "NAMESPACE", namespace), []string{
				"--operator-namespace", system,
			}, "image: at:2",
		},
		"a Platform in the operator's namespace": {
			shared.Kubeconfig(), strings.ReplaceAll(platform, "NAMESPACE", system), []string{
				"--operator-namespace", system,
			}, "no Platform may use it",
		},
		"a Platform of an operator of a namespace": {
			shared.Kubeconfig(), strings.ReplaceAll(platform, "NAMESPACE", namespace), []string{
				"--operator-namespace", limited,
			}, "does not reconcile Platforms",
		},
		"the flag of the operator": {
			shared.Kubeconfig(), database, []string{"--operator-namespace", system}, "image: of-operator:17",
		},
		"a flag of the user": {
			shared.Kubeconfig(), database, []string{"--operator-namespace", system, "--postgresql-image", "of-user"},
			"image: of-user:17",
		},
		"a namespace without an operator": {
			shared.Kubeconfig(), database, []string{"--operator-namespace", namespace}, "image: postgres:17",
		},
		"no operator":       {shared.Kubeconfig(), database, []string{"--operator-namespace", ""}, "image: postgres:17"},
		"several operators": {shared.Kubeconfig(), database, []string{"--operator-namespace", copied}, "has 2 Deployments"},
		"a user who may not read the operator": {
			tenant, database, []string{"--operator-namespace", system}, "You may not list Deployments in namespace " + system,
		},
		"a flag of the user that is not valid": {
			shared.Kubeconfig(), database, []string{"--postgresql-image", "a:1"},
			"--postgresql-image must be an image without a tag",
		},
		"a host of the user that is not a host": {
			shared.Kubeconfig(), database, []string{"--external-database-allowed-hosts", "a/b"}, `"a/b" is not a host name`,
		},
		"an operator of this namespace": {
			shared.Kubeconfig(), database, []string{"--operator-namespace", limited}, "image: of-limited:17",
		},
		"an operator of another namespace": {
			shared.Kubeconfig(), database, []string{"--operator-namespace", elsewhere}, "works only in namespace elsewhere",
		},
		"a flag with a variable": {
			shared.Kubeconfig(), database, []string{"--operator-namespace", variable}, "has a variable in its value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := windlass(t, c.kubeconfig, c.input, append([]string{"plan", "-n", namespace, "-f", "-"}, c.flags...)...)
			if !strings.Contains(r.out+r.errors, c.says) {
				t.Errorf("the output lacks %q; code %d:\n%s%s", c.says, r.code, r.out, r.errors)
			}
		})
	}
}
