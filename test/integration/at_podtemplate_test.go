//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

const atWithPodTemplate = `
apiVersion: cnat.programming-kubernetes.info/v1
kind: At
metadata: {name: NAME}
spec:
  schedule: "2020-01-01T00:00:00Z"
  command: [echo, Hello]
  podTemplate:
    metadata: {labels: {team: shop}}
    spec:
      TOLERATIONS: [{key: batch, operator: Exists}]
      containers: [{name: command, workingDir: /tmp}]
`

// createWithPodTemplate creates an At with podTemplate. tolerations is the name of the field with tolerations.
func createWithPodTemplate(t *testing.T, namespace, name, tolerations string) {
	t.Helper()
	manifest := strings.NewReplacer("NAME", name, "TOLERATIONS", tolerations).Replace(atWithPodTemplate)
	if _, err := shared.Kubectl(t.Context(), manifest, "create", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// TestPodTemplateOfAtReachesPod runs an At with podTemplate, and changes the At with a client of v1alpha1, which does
// not know this field.
func TestPodTemplateOfAtReachesPod(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	createWithPodTemplate(t, namespace, "example", "tolerations")
	at := shared.InPhase(t, namespace, "example", v1.AtDone)
	pod, err := shared.Kube.CoreV1().Pods(namespace).Get(t.Context(), "example-pod", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tolerated := false
	for _, toleration := range pod.Spec.Tolerations {
		tolerated = tolerated || toleration.Key == "batch"
	}
	c := pod.Spec.Containers[0]
	if !tolerated || pod.Labels["team"] != "shop" || c.Name != "command" || c.WorkingDir != "/tmp" {
		t.Errorf("the Pod lacks a field of podTemplate: %v", pod)
	}
	if _, err := shared.Kubectl(t.Context(), "", "label", "-n", namespace,
		"ats.v1alpha1.cnat.programming-kubernetes.info/example", "team=a"); err != nil {
		t.Fatal(err)
	}
	changed, err := shared.Windlass.CnatV1().Ats(namespace).Get(t.Context(), "example", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at.Spec, changed.Spec); diff != "" || changed.Labels["team"] != "a" {
		t.Errorf("the spec changed with the label of v1alpha1 (-before +after):\n%s", diff)
	}
}

// TestAtWithInvalidPodTemplateWaits creates an At with an unknown field in podTemplate, and corrects it.
func TestAtWithInvalidPodTemplateWaits(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	createWithPodTemplate(t, namespace, "example", "tollerations")
	at := shared.InPhase(t, namespace, "example", v1.AtPending)
	const want = `unknown field "spec.podTemplate.spec.tollerations"`
	if ready := meta.FindStatusCondition(at.Status.Conditions, "Ready"); !strings.Contains(ready.Message, want) ||
		at.Status.Phase != v1.AtPending {
		t.Errorf("got phase %s and message %s", at.Status.Phase, ready.Message)
	}
	const path = "/spec/podTemplate/spec/"
	correction := fmt.Sprintf(`[{"op":"move","from":%q,"path":%q}]`, path+"tollerations", path+"tolerations")
	if _, err := shared.Kubectl(t.Context(), "", "patch", "-n", namespace, "at/example", "--type=json", "-p",
		correction); err != nil {
		t.Fatal(err)
	}
	shared.InPhase(t, namespace, "example", v1.AtDone)
}
