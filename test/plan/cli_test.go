//go:build integration

package plan

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/cmd/kubectl-windlass/report"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// result is the result of a command.
type result struct {
	out, errors string
	code        int
}

// windlass runs the plugin as the user of a kubeconfig. input is the standard input.
func windlass(t *testing.T, kubeconfig, input string, args ...string) result {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	var out, failed bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kubectl-windlass"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+t.TempDir())
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &failed
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), failed.String(), command.ProcessState.ExitCode()}
}

// user returns the kubeconfig of a new ServiceAccount with the permissions in rules, and the user name of the account.
func user(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) (kubeconfig, username string) {
	t.Helper()
	ctx, kube := t.Context(), shared.Kube
	meta := metav1.ObjectMeta{Name: name}
	if _, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	meta.Name = namespace + "-" + name
	if _, err := kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
		_ = kube.RbacV1().ClusterRoles().Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
	})
	kubeconfig, err := shared.ServiceAccountKubeconfig(ctx, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig, "system:serviceaccount:" + namespace + ":" + name
}

var (
	everything = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	reading    = rbacv1.PolicyRule{
		APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
	}
)

// shop is a Database, an App that uses it, and the Secret that the App reads.
const shop = `
apiVersion: v1
kind: Secret
metadata: {name: payment}
stringData: {key: CANARY}
---
apiVersion: windlass.dev/v1alpha1
kind: Database
metadata: {name: db}
spec: {version: "17", storage: {size: 1Gi}}
---
apiVersion: windlass.dev/v1alpha1
kind: App
metadata: {name: web}
spec:
  image: web:1
  envFrom: [{secretRef: {name: payment}}]
  databaseRef: {name: db}
`

func TestPlanChangesNothingAndShowsNoSecret(t *testing.T) {
	namespace := shared.NewNamespace(t)
	kubeconfig, username := user(t, namespace, "planner", everything)
	live := "canary-of-the-cluster"
	shared.CreateSecret(t, namespace, "live", map[string]string{"key": live})
	shared.CreateApp(t, namespace, "reader", v1alpha1.AppSpec{Image: "web:1", EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "live"}}},
	}})
	shared.AppIn(t, namespace, "reader", v1alpha1.AppReady)
	manifest := strings.ReplaceAll(shop, "CANARY", "canary-of-the-file")
	changed := "apiVersion: v1\nkind: Secret\nmetadata: {name: live}\nstringData: {key: canary-of-the-change}\n"
	for _, args := range [][]string{{}, {"-o", "json"}, {"-o", "yaml"}} {
		for _, input := range []string{manifest, changed} {
			r := windlass(t, kubeconfig, input, append([]string{"plan", "-n", namespace, "-f", "-"}, args...)...)
			if r.code != 1 {
				t.Errorf("plan %v ended with %d, want 1: %s", args, r.code, r.errors)
			}
			for _, canary := range []string{live, "canary-of-the-file", "canary-of-the-change"} {
				for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
					if strings.Contains(r.out+r.errors, form) {
						t.Errorf("the output of plan %v contains %s:\n%s", args, form, r.out)
					}
				}
			}
		}
	}
	for name, input := range map[string]string{
		"an unknown field of a live Secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: live}\nimutable: " +
			"true\nstringData: {key: canary-of-the-file}\n",
		"an unknown field of a new Secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: new}\nimutable: " +
			"true\nstringData: {key: canary-of-the-file}\n",
		"data that is not encoded": "apiVersion: v1\nkind: Secret\nmetadata: {name: live}\ndata: {key: canary-of-the-file}\n",
		"a Secret without a kind": "apiVersion: v1\nkinb: Secret\nmetadata: {name: live}\nstringData: {key: " +
			"canary-of-the-file}\n",
	} {
		r := windlass(t, kubeconfig, input, "plan", "-n", namespace, "-f", "-")
		if r.code != 2 || strings.Contains(r.out+r.errors, "canary-of-the-file") {
			t.Errorf("%s: exit code %d, want 2, and no data in the output:\n%s%s", name, r.code, r.out, r.errors)
		}
	}
	requests, err := shared.Requests(func(r framework.Request) bool { return r.User.Username == username })
	if err != nil {
		t.Fatal(err)
	}
	dry := 0
	for _, r := range requests {
		switch r.Verb {
		case "get", "list", "watch":
			continue
		}
		if !strings.Contains(r.RequestURI, "dryRun=All") {
			t.Errorf("a plan sent %s without dryRun", r)
		}
		dry++
	}
	if dry == 0 {
		t.Error("the plans sent no dry run")
	}
}

func TestObjectsOfOneFileSeeEachOther(t *testing.T) {
	namespace := shared.NewNamespace(t)
	r := windlass(t, shared.Kubeconfig(), shop, "plan", "-n", namespace, "-f", "-", "-o", "json")
	var p report.Plan
	if err := json.Unmarshal([]byte(r.out), &p); err != nil {
		t.Fatalf("%v: %s%s", err, r.out, r.errors)
	}
	if want := (report.Summary{Create: 9}); p.Summary != want {
		t.Errorf("the summary is %+v, want %+v", p.Summary, want)
	}
	for _, w := range p.Waiting {
		if w.Object == "App "+namespace+"/web" && w.Reason == "DatabaseNotReady" {
			return
		}
	}
	t.Errorf("the App does not wait for the Database of the same file: %+v", p.Waiting)
}

func TestReaderGetsPlanWithoutChecks(t *testing.T) {
	namespace := shared.NewNamespace(t)
	kubeconfig, _ := user(t, namespace, "reader", reading)
	r := windlass(t, kubeconfig, shop, "plan", "-n", namespace, "-f", "-")
	if r.code != 1 || !strings.Contains(r.out, "Plan: 9 to create") ||
		!strings.Contains(r.out, "not checked by the API server") ||
		!strings.Contains(r.out, "You may not create apps.windlass.dev in "+namespace) {
		t.Errorf("the plan of a user who may only read ended with %d:\n%s%s", r.code, r.out, r.errors)
	}
}

// TestDryRunOfBeforeRolloutSeesPlannedObjects plans an App with beforeRollout, whose Deployment the operator sends as a
// dry run: in a namespace that the plan creates, and for a user who may not create Deployments.
func TestDryRunOfBeforeRolloutSeesPlannedObjects(t *testing.T) {
	const spec = `{image: "web:1", beforeRollout: {command: [/migrate]}}`
	namespace := shared.NewNamespace(t)
	reader, _ := user(t, namespace, "reader", reading)
	for name, c := range map[string]struct{ kubeconfig, manifest, pod string }{
		"a namespace that the plan creates": {
			shared.Kubeconfig(), "apiVersion: windlass.dev/v1alpha1\nkind: Platform\nmetadata: {name: " + namespace +
				"}\nspec: {namespace: " + namespace + "-new, components: [{name: web, app: " + spec + "}]}\n",
			namespace + "-new/" + namespace + "-web-before-rollout",
		},
		"a user who may only read": {
			reader, "apiVersion: windlass.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: " + spec + "\n",
			namespace + "/web-before-rollout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := windlass(t, c.kubeconfig, c.manifest, "plan", "-n", namespace, "-f", "-")
			if r.code != 1 || !strings.Contains(r.out, "Pod "+c.pod+" is created") {
				t.Errorf("the plan ended with %d and does not create Pod %s:\n%s%s", r.code, c.pod, r.out, r.errors)
			}
		})
	}
}

func TestErrorOfRequestIsOneSentence(t *testing.T) {
	namespace := shared.NewNamespace(t)
	nobody, _ := user(t, namespace, "nobody")
	unreachable := filepath.Join(t.TempDir(), "config")
	text, err := os.ReadFile(shared.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unreachable,
		[]byte(strings.Replace(string(text), "server: https://127.0.0.1:", "server: https://127.0.0.1:1", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kubeconfig, input string
		args              []string
		says              string
	}{
		"no cluster":             {unreachable, "", []string{"plan", "--all"}, ""},
		"no permissions":         {nobody, "", []string{"plan", "--all"}, "forbidden"},
		"no permissions to read": {nobody, shop, []string{"plan", "-f", "-"}, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := windlass(t, c.kubeconfig, c.input, append(c.args, "-n", namespace)...)
			if r.code != 2 || r.out != "" || strings.Count(r.errors, "\n") != 1 ||
				!strings.HasPrefix(r.errors, "error: ") || !strings.Contains(r.errors, c.says) {
				t.Errorf("exit code %d, output %q, errors %q; want 2, no output, and one line that contains %q", r.code,
					r.out, r.errors, c.says)
			}
		})
	}
}
