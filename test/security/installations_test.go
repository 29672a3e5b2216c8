//go:build integration

package security

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// renewals is the number of Lease renewals for which waitRenewed waits.
const renewals = 5

// atDefinition is the name of the CustomResourceDefinition that uses the webhook.
const atDefinition = "ats.cnat.programming-kubernetes.info"

// waitRenewed waits until the Lease in a namespace has been renewed several times after the call.
func waitRenewed(t *testing.T, on *framework.Installation, namespace string) {
	t.Helper()
	count := func() int {
		requests, err := on.Requests(func(r framework.Request) bool {
			return r.Verb == "update" && r.ObjectRef.Resource == "leases" && r.ObjectRef.Namespace == namespace &&
				r.ObjectRef.Name == "windlass-controller" && r.ResponseStatus.Code == 200
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(requests)
	}
	before := count()
	framework.Eventually(t, "the Lease in "+namespace+" to be renewed", func(context.Context) (bool, error) {
		return count() >= before+renewals, nil
	})
}

// generation returns the generation of the CustomResourceDefinition of At, which counts the changes of its spec.
func generation(t *testing.T, on *framework.Installation) string {
	t.Helper()
	text, err := on.Kubectl(t.Context(), "", "get", "crd", atDefinition, "-o", "jsonpath={.metadata.generation}")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// secondInstallation creates a namespace and a service account with the permissions of artifacts/rbac, and returns the
// kubeconfig of the account.
func secondInstallation(t *testing.T, on *framework.Installation, namespace string) string {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := on.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serviceaccount.yaml", "role.yaml", "clusterrole.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "artifacts", "rbac", name))
		if err != nil {
			t.Fatal(err)
		}
		second := strings.NewReplacer("windlass-system", namespace, "name: windlass-controller-cluster-lease",
			"name: second-cluster-lease",
			"name: windlass-controller", "name: second").Replace(string(text))
		if _, err := on.Kubectl(t.Context(), second, "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, err := on.ServiceAccountKubeconfig(t.Context(), namespace, "second")
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func TestSecondInstallationStandsBy(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	first := framework.Launch(t, p.Cluster)
	waitRenewed(t, p, metav1.NamespaceSystem)
	before := generation(t, p)

	second := framework.Begin(t, p.Cluster, "--kubeconfig", secondInstallation(t, p, "second-system"))
	t.Cleanup(func() { second.Terminate() })
	waitRenewed(t, p, "second-system")
	waitRenewed(t, p, metav1.NamespaceSystem)
	if after := generation(t, p); after != before {
		t.Errorf("the second installation changed the CustomResourceDefinition from generation %s to %s", before, after)
	}
	if second.Ready() {
		t.Error("the second installation is ready, although it does not serve the webhook")
	}
	if log := second.Log.String(); strings.Count(log, "Standing by while another installation of the operator "+
		"holds the Lease") != 1 ||
		strings.Count(log, "Not serving conversions, because the CustomResourceDefinition names the webhook of "+
			"another installation of Windlass") != 1 {
		t.Errorf("the log of the second installation does not report exactly once that it stands by:\n%s", log)
	}
	writes, err := p.Requests(func(r framework.Request) bool {
		return r.User.Username == "system:serviceaccount:second-system:second" && r.ObjectRef.Resource != "leases" &&
			(r.Verb == "create" || r.Verb == "update" || r.Verb == "patch" || r.Verb == "delete")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range writes {
		t.Errorf("the installation on standby writes: %s", write)
	}

	first.Kill()
	framework.Eventually(t, "the second installation to be ready", func(context.Context) (bool, error) {
		return second.Ready(), nil
	})
	p.Create(t, "default", "example", "echo Hello", nil)
	p.InPhase(t, "default", "example", v1.AtDone)
	if text, err := p.Kubectl(t.Context(), "", "get", "ats.v1alpha1.cnat.programming-kubernetes.info", "-n",
		"default"); err != nil || !strings.Contains(text, "example") {
		t.Errorf("the second installation does not convert Ats: %v: %s", err, text)
	}
	taken := generation(t, p)
	third := framework.Begin(t, p.Cluster)
	t.Cleanup(func() { third.Terminate() })
	waitRenewed(t, p, "windlass-system")
	if after := generation(t, p); after != taken {
		t.Errorf("the restarted first installation changed the CustomResourceDefinition from generation %s to %s",
			taken, after)
	}
}

func TestNamespacedOperatorsWorkSideBySide(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"delete", "clusterrolebinding", "windlass-controller"},
		{"delete", "rolebinding", "-n", "kube-system", "windlass-controller-cluster-lease"},
		{"create", "namespace", "one"}, {"create", "namespace", "two"},
		{"apply", "-n", "one", "-f", filepath.Join(root, "artifacts", "rbac", "namespaced")},
		{"apply", "-n", "two", "-f", filepath.Join(root, "artifacts", "rbac", "namespaced")},
	} {
		if _, err := p.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	first := framework.Launch(t, p.Cluster, "--namespace", "one")
	t.Cleanup(func() { first.Terminate() })
	second := framework.Launch(t, p.Cluster, "--namespace", "two", "--webhook-url", first.WebhookURL)
	t.Cleanup(func() { second.Terminate() })
	for _, namespace := range []string{"one", "two"} {
		p.Create(t, namespace, "example", "echo Hello", nil)
		p.InPhase(t, namespace, "example", v1.AtDone)
		waitRenewed(t, p, namespace)
	}
	rejected, err := p.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.Unauthorized()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rejected) > 0 {
		t.Errorf("requests of the operators were denied: %s", fmt.Sprint(rejected))
	}
}
