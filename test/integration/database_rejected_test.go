//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// obstacle is something in a namespace that makes the API server reject the Pod of a Database.
type obstacle struct {
	create, remove func(t *testing.T, namespace string)
	message        string
}

// noPods is a quota for Pods that is used up.
var noPods = obstacle{
	create: func(t *testing.T, namespace string) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "small"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		_, err := shared.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "the quota to be known", func(ctx context.Context) (bool, error) {
			is, err := shared.Kube.CoreV1().ResourceQuotas(namespace).Get(ctx, "small", metav1.GetOptions{})
			return err == nil && len(is.Status.Hard) > 0, err
		})
	},
	remove: func(t *testing.T, namespace string) {
		err := shared.Kube.CoreV1().ResourceQuotas(namespace).Delete(t.Context(), "small", metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	},
	message: "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0. " +
		"Raise the quota, or wait until other Pods end.",
}

// obstacles are all obstacles.
var obstacles = map[string]obstacle{
	"a ResourceQuota": noPods,
	"a LimitRange": {
		create: func(t *testing.T, namespace string) {
			small := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
			limits := &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "small"},
				Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: small}}},
			}
			_, err := shared.Kube.CoreV1().LimitRanges(namespace).Create(t.Context(), limits, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
		remove: func(t *testing.T, namespace string) {
			err := shared.Kube.CoreV1().LimitRanges(namespace).Delete(t.Context(), "small", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
		message: "maximum memory usage per Container is 64Mi, but limit is 128Mi. Set spec.resources to what the " +
			"namespace allows.",
	},
	"an admission policy": {
		create: func(t *testing.T, namespace string) {
			const kind = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy`
			metadata := `"metadata":{"name":"` + namespace + `"},`
			apply(t, kind+`",`+metadata+`"spec":{"matchConstraints":{"resourceRules":[`+
				`{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["CREATE"]}]},`+
				`"validations":[{"expression":"false","message":"no Pods on Sundays"}]}}`)
			apply(t, kind+`Binding",`+metadata+`"spec":{"policyName":"`+namespace+`","validationActions":["Deny"],`+
				`"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"`+namespace+`"}}}}}`)
			framework.Eventually(t, "the policy to be in force", func(ctx context.Context) (bool, error) {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "probe"},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
				}
				dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
				_, err := shared.Kube.CoreV1().Pods(namespace).Create(ctx, pod, dry)
				return err != nil && strings.Contains(err.Error(), "no Pods on Sundays"), nil
			})
		},
		remove: func(t *testing.T, namespace string) {
			for _, kind := range []string{"validatingadmissionpolicybinding", "validatingadmissionpolicy"} {
				if _, err := shared.Kubectl(t.Context(), "", "delete", kind, namespace); err != nil {
					t.Fatal(err)
				}
			}
		},
		message: "denied request: no Pods on Sundays. Ask the administrator of the namespace which Pods are allowed.",
	},
}

func apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := shared.Kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// rejected waits until the status of Database "shop" says why the API server rejects its Pod.
func rejected(t *testing.T, namespace string, o obstacle) {
	t.Helper()
	db := shared.DatabaseReason(t, namespace, "shop", "PodRejected")
	degraded := meta.FindStatusCondition(db.Status.Conditions, "Degraded")
	if degraded == nil || degraded.Status != metav1.ConditionTrue || !strings.Contains(degraded.Message, o.message) {
		t.Errorf("the condition Degraded is %v, want a message with %q", degraded, o.message)
	}
}

// TestDatabaseSaysWhyItsPodIsRejected checks the status, and checks that the Database recovers after the removal of the
// obstacle. The StatefulSet controller backs off for up to 17 minutes, but the operator makes it create the Pod
// earlier.
func TestDatabaseSaysWhyItsPodIsRejected(t *testing.T) {
	t.Parallel()
	for name, o := range obstacles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			o.create(t, namespace)
			spec := framework.SmallestDatabase()
			spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
			shared.CreateDatabase(t, namespace, "shop", spec)
			rejected(t, namespace, o)
			o.remove(t, namespace)
			shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
		})
	}
}

func TestDatabaseSaysWhyItsEvictedPodIsRejected(t *testing.T) {
	t.Parallel()
	namespace := createReadyDatabase(t, nil)
	noPods.create(t, namespace)
	if err := shared.Kube.CoreV1().Pods(namespace).Delete(t.Context(), "shop-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rejected(t, namespace, noPods)
	noPods.remove(t, namespace)
	shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
}

// TestDatabaseCompliesWithPodSecurity checks that the Pod Security Standard restricted does not reject the Pod of a
// Database, and that a Ready Database costs no dry run.
func TestDatabaseCompliesWithPodSecurity(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	_, err := shared.Kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
	shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
	sent, err := shared.Requests(func(r framework.Request) bool {
		of := r.ObjectRef
		return r.User.Username == controllerUser && r.Verb == "create" && of.Resource == "pods" && of.Namespace == namespace
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sent) > 0 {
		t.Errorf("the operator sent %v", sent)
	}
}
