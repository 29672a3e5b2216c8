//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// rejectsStatefulSets rejects Pods of everybody but the operator, which therefore cannot find out why the Pod of a
// StatefulSet is missing.
const rejectsStatefulSets = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - {expression: 'request.userInfo.username == "CONTROLLER"', message: No StatefulSets here.}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE, validationActions: [Deny]}
`

// injecting adds a container to each Pod.
const injecting = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "add", path: "/spec/containers/-",
        value: Object.spec.containers{name: "proxy", image: "proxy:1"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE}
`

// advicesOfDatabase are the cases of Database.
var advicesOfDatabase = map[string]advice{
	"a Database that starts": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.SmallestDatabase()
			spec.Storage.StorageClassName = ptr.To("missing")
			shared.CreateDatabase(t, namespace, "shop", spec)
			return "database/shop", "PostgreSQL is starting"
		},
		check: wantText("StatefulSet", "PersistentVolumeClaim", "shop-0"),
	},
	"a Pod of a Database that no node can run": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.SmallestDatabase()
			spec.Resources = tooMuch
			shared.CreateDatabase(t, namespace, "shop", spec)
			return "database/shop", "does not start"
		},
		check: wantUnschedulable,
	},
	"a Pod of a Database that an injected container keeps from being ready": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			applyInForce(t, namespace, injecting, "proxy")
			readyDatabase(t, namespace)
			reportPods(t, namespace, `{"status":{"conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[
				{"name":"postgresql","image":"postgres:17","imageID":"","ready":true,"restartCount":0,
				"state":{"running":{"startedAt":"2020-01-01T00:00:00Z"}}},
				{"name":"proxy","image":"proxy:1","imageID":"","ready":false,"restartCount":0,
				"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}}`)
			return "database/shop", "is not ready"
		},
		check: wantText("shop-0"),
	},
	"a Database whose PostgreSQL ends again and again": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			readyDatabase(t, namespace)
			reportPods(t, namespace, `{"status":{"conditions":[{"type":"Ready","status":"False"}],
				"containerStatuses":[{"name":"postgresql","image":"postgres:17","imageID":"","ready":false,"restartCount":9,
				"state":{"waiting":{"reason":"CrashLoopBackOff"}},
				"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}}]}}`)
			return "database/shop", "--previous"
		},
	},
	"a Database with changes that need a restart": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			db := readyDatabase(t, namespace)
			shared.UpdateDatabase(t, namespace, db.Name, func(db *v1alpha1.Database) {
				db.Spec.UpdatePolicy, db.Spec.Image = v1alpha1.UpdateManual, "postgres:17.7"
			})
			return "database/shop", "To restart PostgreSQL"
		},
		check: func(t *testing.T, namespace, _ string) {
			t.Helper()
			shared.DatabaseWith(t, namespace, "shop", "Ready without a pending restart", func(db *v1alpha1.Database) bool {
				return db.Status.Phase == v1alpha1.DatabaseReady && len(db.Status.PendingRestart) == 0
			})
		},
	},
	"a Database whose Pod a policy rejects": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			applyInForce(t, namespace, rejectsStatefulSets, "No StatefulSets here.")
			shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
			return "database/shop", "has not created Pod"
		},
		check: wantText("No StatefulSets here."),
	},
	"a Database whose Pod has the name of another Pod": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			if _, err := shared.Kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "shop-0", Labels: map[string]string{"whose": "theirs"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
			return "database/shop", "does not belong to StatefulSet"
		},
		check: wantText("whose=theirs"),
	},
	"a Database whose volume is lost": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			readyDatabase(t, namespace)
			loseVolume(t, namespace)
			return "database/shop", "is lost"
		},
		check: wantText("Lost"),
	},
	"a Database with a backup whose volume is lost": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.SmallestDatabase()
			spec.Backup = framework.EverythingOfDatabase().Backup
			shared.CreateDatabase(t, namespace, "shop", spec)
			shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
			loseVolume(t, namespace)
			return "database/shop", "To restore the backup"
		},
		check: func(t *testing.T, namespace, _ string) {
			t.Helper()
			shared.DatabaseWith(t, namespace, "shop", "restored and Ready", func(db *v1alpha1.Database) bool {
				return db.Status.Phase == v1alpha1.DatabaseReady && db.Status.RestoredClaim != ""
			})
			if got := string(claimOf(t, namespace).UID); got != database(t, namespace).Status.RestoredClaim {
				t.Errorf("the backup was not restored to the claim %s", got)
			}
		},
	},
	"a Database whose restore is withdrawn": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.SmallestDatabase()
			spec.Storage.StorageClassName = ptr.To("missing") // so that the restore does not end
			spec.RestoreFrom = &v1alpha1.DatabaseRestore{Database: v1alpha1.LocalDatabase{Name: "other"}}
			shared.CreateDatabase(t, namespace, "shop", spec)
			shared.DatabaseReason(t, namespace, "shop", "Restoring")
			shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) { db.Spec.RestoreFrom = nil })
			return "database/shop", "To run PostgreSQL with what the volume has"
		},
		check: func(t *testing.T, namespace, _ string) {
			t.Helper()
			shared.DatabaseReason(t, namespace, "shop", "Starting")
		},
	},
}

// database returns Database shop.
func database(t *testing.T, namespace string) *v1alpha1.Database {
	t.Helper()
	db, err := shared.Windlass.WindlassV1alpha1().Databases(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// loseVolume deletes the volume of Database shop.
func loseVolume(t *testing.T, namespace string) {
	t.Helper()
	volumes, volume := shared.Kube.CoreV1().PersistentVolumes(), claimOf(t, namespace).Spec.VolumeName
	if err := volumes.Delete(t.Context(), volume, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := volumes.Patch(t.Context(), volume, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// readyDatabase creates Database shop, and waits until it is Ready.
func readyDatabase(t *testing.T, namespace string) *v1alpha1.Database {
	t.Helper()
	shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
	return shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
}

// wantText returns a check that the output of a command contains texts.
func wantText(texts ...string) func(t *testing.T, namespace, output string) {
	return func(t *testing.T, _, output string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(output, text) {
				t.Errorf("the output of the command does not contain %q:\n%s", text, output)
			}
		}
	}
}

// applyInForce applies an admission policy to a namespace until the test ends. It returns when the output of an attempt
// to create a Pod contains a text.
func applyInForce(t *testing.T, namespace, policy, text string) {
	t.Helper()
	policy = strings.NewReplacer("NAMESPACE", namespace, "CONTROLLER", controllerUser).Replace(policy)
	if _, err := shared.Kubectl(t.Context(), policy, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := shared.Kubectl(context.Background(), policy, "delete", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	framework.Eventually(t, "the policy to have an effect", func(ctx context.Context) (bool, error) {
		output, _ := shared.Kubectl(ctx, "", "run", "probe", "-n", namespace, "--image=probe:1", "--dry-run=server",
			"-o", "yaml") // may fail because of the policy
		return strings.Contains(output, text), nil
	})
}

// reportPods merges JSON into the status of each Pod in a namespace, as the kubelet would.
func reportPods(t *testing.T, namespace, status string) {
	t.Helper()
	pods := shared.Kube.CoreV1().Pods(namespace)
	all, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		t.Fatalf("listing Pods: there are %d: %v", len(all.Items), err)
	}
	for i := range all.Items {
		if _, err := pods.Patch(t.Context(), all.Items[i].Name, types.StrategicMergePatchType, []byte(status),
			metav1.PatchOptions{}, "status"); err != nil {
			t.Fatalf("changing the status of Pod %s: %v", all.Items[i].Name, err)
		}
	}
}
