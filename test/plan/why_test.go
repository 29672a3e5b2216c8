//go:build integration

package plan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/test/framework"
)

// cause is a manifest with a problem that keeps an object from becoming Ready, and the expected explanation.
type cause struct {
	// manifest contains the objects. NAMESPACE stands for the namespace, and SERVER for the data of a connection Secret.
	manifest string
	// of is the object to explain.
	of string
	// root is part of the line about the root cause, and advice is part of the last line.
	root, advice string
}

const (
	appWith      = "apiVersion: windlass.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {image: web:1, %s}\n"
	databaseWith = "apiVersion: windlass.dev/v1alpha1\nkind: Database\nmetadata: {name: db}\nspec: {version: '17', %s}\n"
	externalWith = "apiVersion: windlass.dev/v1alpha1\nkind: ExternalDatabase\nmetadata: {name: db}\nspec: " +
		"{connectionSecretRef: {name: server}, databaseName: why-NAMESPACE, %s}\n"
	atWith = "apiVersion: cnat.programming-kubernetes.info/v1\nkind: At\nmetadata: {name: job}\nspec: " +
		"{command: [sh, -c, %q], %s}\n"
	platformWith = "apiVersion: windlass.dev/v1alpha1\nkind: Platform\nmetadata: {name: NAMESPACE}\nspec: " +
		"{namespace: NAMESPACE, components: [%s]}\n"
	secretWith = "apiVersion: v1\nkind: Secret\nmetadata: {name: server}\nstringData: {%s}\n"
	past       = "schedule: '2020-01-01T00:00:00Z'"
	noClass    = "storage: {size: 1Gi, storageClassName: missing}"
)

// with joins manifests into one manifest.
func with(manifests ...string) string { return strings.Join(manifests, "---\n") }

var causes = map[string]cause{
	"a Secret that is missing": {
		fmt.Sprintf(appWith, "envFrom: [{secretRef: {name: payment}}]"), "app/web",
		"App NAMESPACE/web is Pending: Waiting for Secret payment", "Create the Secret",
	},
	"a ConfigMap that is missing": {
		fmt.Sprintf(appWith, "envFrom: [{configMapRef: {name: settings}}]"), "app/web",
		"Waiting for ConfigMap settings", "Create the ConfigMap",
	},
	"a Database that is missing": {
		fmt.Sprintf(appWith, "databaseRef: {name: db}"), "app/web", "Waiting for Database db", "Create the Database",
	},
	"a database of another kind": {
		with(fmt.Sprintf(appWith, "databaseRef: {name: db, kind: ExternalDatabase}"),
			fmt.Sprintf(databaseWith, "storage: {size: 1Gi}")), "app/web", "belongs to Database db", "Correct spec.databaseRef",
	},
	"a Database without a volume": {
		with(fmt.Sprintf(appWith, "databaseRef: {name: db}"), fmt.Sprintf(databaseWith, noClass)), "app/web",
		"PersistentVolumeClaim NAMESPACE/db is Pending", "Correct the cause",
	},
	"a volume without a class": {
		fmt.Sprintf(databaseWith, noClass), "database/db", "PersistentVolumeClaim NAMESPACE/db is Pending",
		"Correct the cause",
	},
	"a name that is taken": {
		with("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n",
			fmt.Sprintf(appWith, "replicas: 1")), "app/web", "Service NAMESPACE/web", "",
	},
	"a quota": {
		with("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: '0'}}\n",
			fmt.Sprintf(appWith, "replicas: 1")), "app/web", "exceeded quota", "Follow the advice in the message",
	},
	"a service account that is gone": {
		fmt.Sprintf(appWith, "serviceAccountName: gone"), "app/web", `serviceaccount "gone" not found`, "",
	},
	"no node with enough CPU": {
		fmt.Sprintf(appWith, "resources: {requests: {cpu: '100000'}}"), "app/web", "is not scheduled: ", "Correct the cause",
	},
	"a migration that fails": {
		fmt.Sprintf(appWith, "beforeRollout: {command: [sh, -c, exit 3]}"), "app/web", "beforeRollout failed",
		"Correct the command",
	},
	"a paused App": {
		strings.Replace(fmt.Sprintf(appWith, "replicas: 1"), "name: web",
			"name: web, annotations: {windlass.dev/paused: 'true'}", 1), "app/web", "windlass.dev/paused", "",
	},
	"a command that fails": {fmt.Sprintf(atWith, "exit 3", past), "at/job", "exit code 3", "read its log"},
	"a suspended At": {
		fmt.Sprintf(atWith, "true", past+", suspend: true"), "at/job", "spec.suspend", "Set spec.suspend",
	},
	"an At whose time has not come": {
		fmt.Sprintf(atWith, "true", "schedule: '2100-01-01T00:00:00Z'"), "at/job", "The command runs at", "Wait.",
	},
	"an At whose deadline passed": {
		fmt.Sprintf(atWith, "true", past+", startingDeadlineSeconds: 1"), "at/job", "was not started within",
		"Create another At",
	},
	"no connection Secret": {fmt.Sprintf(externalWith, "extensions: []"), "externaldatabase/db", "server", ""},
	"a connection without a host": {
		with(fmt.Sprintf(secretWith, "username: a, password: b"), fmt.Sprintf(externalWith, "extensions: []")),
		"externaldatabase/db", "host", "",
	},
	"a server that is away": {
		with(fmt.Sprintf(secretWith, "host: 127.0.0.1, port: '1', username: a, password: b, sslmode: disable"),
			fmt.Sprintf(externalWith, "extensions: []")), "externaldatabase/db", "connect", "",
	},
	"a password that is rejected": {
		with(fmt.Sprintf(secretWith, "SERVER, password: wrong"), fmt.Sprintf(externalWith, "extensions: []")),
		"externaldatabase/db", "password", "",
	},
	"an extension that is missing": {
		with(fmt.Sprintf(secretWith, "SERVER, password: PASSWORD"), fmt.Sprintf(externalWith, "extensions: [nothing]")),
		"externaldatabase/db", "nothing", "",
	},
	"a cycle": {
		fmt.Sprintf(platformWith, "{name: a, dependsOn: [b], app: {image: 'a:1'}}, {name: b, dependsOn: [a], app: "+
			"{image: 'b:1'}}"), "platform/NAMESPACE", "cycle", "",
	},
	"a component without a volume": {
		fmt.Sprintf(platformWith, "{name: orders, dependsOn: [db], app: {image: 'a:1'}}, {name: db, database: "+
			"{version: '17', "+noClass+"}}"), "platform/NAMESPACE",
		"PersistentVolumeClaim NAMESPACE/NAMESPACE-db is Pending", "",
	},
	"a task that fails": {
		fmt.Sprintf(platformWith, "{name: web, dependsOn: [task], app: {image: 'a:1'}}, {name: task, at: {command: "+
			"[sh, -c, exit 3], "+past+"}}"), "platform/NAMESPACE", "At NAMESPACE/NAMESPACE-task is Done", "read its log",
	},
}

func TestWhyFindsTheRootCause(t *testing.T) {
	for name, c := range causes {
		namespace := shared.NewNamespace(t)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fill := strings.NewReplacer("NAMESPACE", namespace, "SERVER",
				"host: 127.0.0.1, port: '"+server.Port+"', username: postgres, sslmode: disable", "PASSWORD",
				server.Password).Replace
			apply(t, namespace, fill(c.manifest))
			if _, name, found := strings.Cut(fill(c.of), "platform/"); found {
				t.Cleanup(func() {
					_ = shared.Windlass.WindlassV1alpha1().Platforms().Delete(context.Background(), name, metav1.DeleteOptions{})
				})
			}
			var got result
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("why %s printed:\n%s%s", c.of, got.out, got.errors)
				}
			})
			framework.Eventually(t, "why to find the cause", func(context.Context) (bool, error) {
				got = windlass(t, shared.Kubeconfig(), "", "why", fill(c.of), "-n", namespace)
				lines := strings.Split(strings.TrimSpace(got.out), "\n")
				root := lines[max(0, len(lines)-2)]
				if c.advice == "" {
					root = got.out // the advice is part of the message
				}
				return got.code == 0 && strings.Contains(root, fill(c.root)) && strings.Contains(lines[len(lines)-1], c.advice), nil
			})
		})
	}
}

// apply creates the objects of a manifest.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := shared.Kubectl(t.Context(), "", "apply", "-n", namespace, "-f", path); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
