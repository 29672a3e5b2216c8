//go:build integration

package neighbours

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// rejecting is a policy that rejects Pods with the image of the objects in smallest.
const rejecting = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "false", message: "Images need a signature."}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE, validationActions: [Deny]}
`

// smallest is one object of each kind whose Pods a policy can reject, with only the required fields.
const smallest = `
{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {name: web}, spec: {image: "web:1"}}
---
{apiVersion: windlass.dev/v1alpha1, kind: Database, metadata: {name: orders},
  spec: {version: "17", storage: {size: 1Gi}}}
---
{apiVersion: cnat.programming-kubernetes.info/v1, kind: At, metadata: {name: migrate},
  spec: {schedule: "2020-01-01T00:00:00Z", command: ["true"]}}
`

func quota(resource string) string {
	return "{apiVersion: v1, kind: ResourceQuota, metadata: {name: share, namespace: NAMESPACE}, spec: {hard: {" +
		resource + `: "0"}}}`
}

// TestStatusNamesPolicyThatRejects creates objects in namespaces whose policies reject what the operator has to create.
// The status of each object names the policy. As soon as the policy is gone, the objects become Ready.
func TestStatusNamesPolicyThatRejects(t *testing.T) {
	t.Parallel()
	everyKind := []string{"App", "Database", "At"}
	for name, policy := range map[string]struct {
		manifest string
		named    string   // part of the messages
		kinds    []string // the kinds whose objects cannot become Ready
	}{
		"a quota of Pods":        {quota("pods"), "exceeded quota: share", everyKind},
		"a quota of claims":      {quota("persistentvolumeclaims"), "exceeded quota: share", []string{"Database"}},
		"a quota of Services":    {quota("services"), "exceeded quota: share", []string{"App", "Database"}},
		"a quota of Secrets":     {quota("secrets"), "exceeded quota: share", []string{"Database"}},
		"a quota of Deployments": {quota("count/deployments.apps"), "exceeded quota: share", []string{"App"}},
		"a quota that needs requests": {
			quota("requests.cpu"), "failed quota: share", everyKind,
		},
		"a LimitRange": {
			`{apiVersion: v1, kind: LimitRange, metadata: {name: min, namespace: NAMESPACE}, spec: {limits: [{type: Pod,
				min: {memory: 10Gi}}]}}`, "minimum memory usage per Pod is 10Gi", everyKind,
		},
		"Pod Security restricted": {
			strings.ReplaceAll(baseline, "baseline", "restricted"), `violates PodSecurity "restricted`, []string{"At"},
		},
		"a policy that checks images": {rejecting, "Images need a signature.", everyKind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			manifest := strings.ReplaceAll(policy.manifest, "NAMESPACE", namespace)
			apply(t, namespace, manifest)
			waitInForce(t, namespace, policy.named)
			apply(t, namespace, smallest)
			waitNamed(t, namespace, policy.named, policy.kinds)
			lift(t, namespace, manifest)
			checks := 0
			framework.Eventually(t, "the objects to be Ready", func(ctx context.Context) (bool, error) {
				// Without a change of the object, the operator tries again within five minutes. The policy may stay in force
				// for a moment after its deletion.
				if checks%25 == 0 {
					touch(t, namespace, fmt.Sprint("the policy is gone, ", checks))
				}
				checks++
				_, ready, err := unready(ctx, namespace)
				return ready == len(everyKind), err
			})
		})
	}
}

// waitInForce waits until the API server knows the quota, or rejects a Pod.
func waitInForce(t *testing.T, namespace, named string) {
	t.Helper()
	if strings.Contains(named, "quota") {
		_, err := shared.Kubectl(t.Context(), "", "wait", "resourcequota/share", "-n", namespace,
			"--for=jsonpath={.status.hard}", "--timeout=60s")
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	framework.Eventually(t, "the API server to reject a Pod", func(ctx context.Context) (bool, error) {
		_, err := shared.Kubectl(ctx, "", "run", "probe", "-n", namespace, "--image=probe:1", "--dry-run=server")
		return err != nil && strings.Contains(err.Error(), named), nil
	})
}

// waitNamed waits until the status of exactly the objects of these kinds contains a text.
func waitNamed(t *testing.T, namespace, text string, of []string) {
	t.Helper()
	states := map[string][]string{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last conditions: %q", states)
		}
	})
	framework.Eventually(t, "the status to contain "+text, func(ctx context.Context) (bool, error) {
		objects, err := objectsOf(ctx, namespace, kinds[:4])
		var named []string
		for _, object := range objects {
			states[object.GetKind()] = messagesOf(object)
			if strings.Contains(strings.Join(states[object.GetKind()], "\n"), text) {
				named = append(named, object.GetKind())
			}
		}
		return slices.Equal(named, of), err
	})
}

// lift removes a policy.
func lift(t *testing.T, namespace, manifest string) {
	t.Helper()
	args := []string{"delete", "-n", namespace, "-f", "-"}
	if strings.Contains(manifest, "kind: Namespace") {
		args = []string{"label", "namespace", namespace, "pod-security.kubernetes.io/enforce-"}
	}
	if _, err := shared.Kubectl(t.Context(), manifest, args...); err != nil {
		t.Fatal(err)
	}
}

// apply applies manifests in a namespace.
func apply(t *testing.T, namespace, manifests string) {
	t.Helper()
	if _, err := shared.Kubectl(t.Context(), manifests, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}
