//go:build integration

package security

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

func TestRestrictedAtRunsUnderRestrictedPodSecurity(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	label := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
	if _, err := shared.Kube.CoreV1().Namespaces().Patch(t.Context(), tenant.Namespace, types.MergePatchType,
		[]byte(label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	tenant.Create(t, tenant.Namespace, "confined", "echo Hello", func(at *v1.At) { at.Spec.Restricted = ptr.To(true) })
	tenant.InPhase(t, tenant.Namespace, "confined", v1.AtDone)

	tenant.Create(t, tenant.Namespace, "free", "echo Hello", nil)
	framework.Eventually(t, "the At to have the reason PodRejected", func(ctx context.Context) (bool, error) {
		at, err := tenant.Windlass.CnatV1().Ats(tenant.Namespace).Get(ctx, "free", metav1.GetOptions{})
		return err == nil && framework.Reason(at, "Stalled") == "PodRejected", err
	})
	text, err := shared.Kubectl(t.Context(), "", "get", "at", "free", "-n", tenant.Namespace)
	if err != nil || !strings.Contains(text, "PodRejected") {
		t.Errorf("kubectl get does not print PodRejected: %v: %s", err, text)
	}
	// Follow the advice in the message of the At: delete the At and create it again.
	if err := tenant.Windlass.CnatV1().Ats(tenant.Namespace).Delete(t.Context(), "free",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	tenant.Create(t, tenant.Namespace, "free", "echo Hello", func(at *v1.At) { at.Spec.Restricted = ptr.To(true) })
	tenant.InPhase(t, tenant.Namespace, "free", v1.AtDone)
}

func TestAtWithoutServiceAccountMountsNoToken(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	for name, account := range map[string]string{"without": "", "with": "default"} {
		tenant.Create(t, tenant.Namespace, name, "echo Hello", func(at *v1.At) { at.Spec.ServiceAccountName = account })
		tenant.InPhase(t, tenant.Namespace, name, v1.AtDone)
		pod, err := tenant.Kube.CoreV1().Pods(tenant.Namespace).Get(t.Context(), name+"-pod", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if mounts := len(pod.Spec.Containers[0].VolumeMounts) > 0; mounts != (account != "") {
			t.Errorf("the Pod of an At with service account %q mounts a token: %t", account, mounts)
		}
	}
}
