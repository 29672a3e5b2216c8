//go:build integration

package neighbours

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/test/framework"
)

// mutating is the start of a policy that changes objects in a namespace. The mutations follow.
const mutating = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules:
`

// mesh adds an init container, a sidecar and a container to each Pod, as meshes do: native sidecars since Kubernetes
// 1.29, containers before.
const mesh = mutating + `
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions: [{name: once, expression: '!object.spec.containers.exists(c, c.name == "mesh-proxy")'}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        (has(object.spec.initContainers) ? [] : [JSONPatch{op: "add", path: "/spec/initContainers", value: []}]) + [
        JSONPatch{op: "add", path: "/spec/initContainers/-",
        value: Object.spec.initContainers{name: "mesh-init", image: "mesh:1"}},
        JSONPatch{op: "add", path: "/spec/initContainers/-",
        value: Object.spec.initContainers{name: "mesh-native", image: "mesh:1", restartPolicy: "Always"}},
        JSONPatch{op: "add", path: "/spec/containers/-",
        value: Object.spec.containers{name: "mesh-proxy", image: "mesh:1"}}]
`

// mirror rewrites the images of Pods and of workloads to a registry of the company.
const mirror = mutating + `
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, statefulsets]}
  variables:
  - name: containers
    expression: 'object.kind == "Pod" ? object.spec.containers : object.spec.template.spec.containers'
  - {name: path, expression: '(object.kind == "Pod" ? "" : "/spec/template") + "/spec/containers/0/image"'}
  matchConditions:
  - name: once
    expression: >
      !(object.kind == "Pod" ? object.spec.containers : object.spec.template.spec.containers)[0].image
      .startsWith("mirror.example.com/")
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "replace", path: variables.path, value: "mirror.example.com/" + variables.containers[0].image}]
`

// additions adds a label and an annotation to every object, and a toleration and resources to Pods.
const additions = mutating + `
    - {apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        (has(object.metadata.labels) ? [] : [JSONPatch{op: "add", path: "/metadata/labels", value: {}}]) +
        (has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]) + [
        JSONPatch{op: "add", path: "/metadata/labels/cost-centre", value: "42"},
        JSONPatch{op: "add", path: "/metadata/annotations/example.com~1checked", value: "yes"}] +
        (object.kind != "Pod" || has(object.spec.nodeName) ? [] :
        (has(object.spec.tolerations) ? [] : [JSONPatch{op: "add", path: "/spec/tolerations", value: []}]) + [
        JSONPatch{op: "add", path: "/spec/tolerations/-",
        value: Object.spec.tolerations{key: "spot", operator: "Exists"}},
        JSONPatch{op: "add", path: "/spec/containers/0/resources", value: {}},
        JSONPatch{op: "add", path: "/spec/containers/0/resources/requests", value: {"cpu": "70m", "memory": "70Mi"}}])
`

// limits gives containers default resources, and limits what the namespace may use.
const limits = `
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: NAMESPACE}
spec: {limits: [{type: Container, default: {cpu: 500m, memory: 256Mi}, defaultRequest: {cpu: 50m, memory: 32Mi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: share, namespace: NAMESPACE}
spec: {hard: {requests.cpu: "20", limits.memory: 20Gi, pods: "60", persistentvolumeclaims: "5", services: "20"}}
`

// baseline allows only Pods that meet the Pod Security Standard baseline.
const baseline = `
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE, labels: {pod-security.kubernetes.io/enforce: baseline}}
`

// applyPolicy applies a policy to a namespace until the test ends. It returns when the policy has an effect.
func applyPolicy(t *testing.T, namespace, policy string) {
	t.Helper()
	policy = strings.ReplaceAll(policy, "NAMESPACE", namespace)
	if _, err := shared.Kubectl(t.Context(), policy, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(policy, "MutatingAdmissionPolicy") {
		return
	}
	t.Cleanup(func() {
		if _, err := shared.Kubectl(context.Background(), policy, "delete", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe:1"}}},
	}
	framework.Eventually(t, "the policy to have an effect", func(ctx context.Context) (bool, error) {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		made, err := shared.Kube.CoreV1().Pods(namespace).Create(ctx, probe, dry)
		return err == nil && (len(made.Spec.Containers) > 1 || made.Spec.Containers[0].Image != "probe:1" ||
			made.Labels["cost-centre"] != ""), nil // the API server may fail while it compiles the policy
	})
}
