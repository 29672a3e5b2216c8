//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// theirs are the objects of a Helm chart.
const theirs = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {app.kubernetes.io/managed-by: Helm}, annotations: {meta.helm.sh/release-name: shop}}
spec:
  replicas: 2
  selector: {matchLabels: &labels {app.kubernetes.io/name: shop, app.kubernetes.io/instance: release}}
  template:
    metadata: {labels: *labels, annotations: {checksum/config: abc}}
    spec:
      containers:
      - name: app
        image: shop:1
        ports: [{name: http, containerPort: 8080}]
        livenessProbe: &probe {httpGet: {path: /, port: http}}
        readinessProbe: *probe
      - {name: proxy, image: proxy:1}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app.kubernetes.io/name: shop}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec: {defaultBackend: {service: {name: shop, port: {number: 80}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app.kubernetes.io/name: shop}}}
`

// likeTheirs returns the spec of an App whose Pod template differs from that of the chart only in operator fields.
func likeTheirs() v1alpha1.AppSpec {
	spec := smallest()
	spec.Replicas = ptr.To[int32](2)
	spec.Port = 8080
	spec.Probes = &v1alpha1.AppProbes{Liveness: &v1alpha1.AppContainerProbe{HTTPGet: &v1alpha1.AppHTTPGet{Path: "/"}}}
	spec.Ingress = &v1alpha1.AppIngress{Host: "shop.example.com", Path: "/"}
	patch := `{"securityContext":{"$patch":"replace"},"containers":[` +
		`{"name":"app","securityContext":{"$patch":"replace"}},{"name":"proxy","image":"proxy:1"}]}`
	spec.PodTemplate = &cnatv1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(patch)}}
	return spec
}

// TestAppAdoptsObjectsWithAnnotation sets the annotation that the message of the App names.
func TestAppAdoptsObjectsWithAnnotation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1alpha1.AppSpec)
		keeps  bool
	}{
		"an App with the template of the Deployment keeps the Pods": {change: func(*v1alpha1.AppSpec) {}, keeps: true},
		"an App without the sidecar replaces the Pods": {
			change: func(spec *v1alpha1.AppSpec) { spec.PodTemplate = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			kubectl := func(args ...string) string {
				t.Helper()
				output, err := shared.Kubectl(t.Context(), theirs, append(args, "-n", namespace)...)
				if err != nil {
					t.Fatal(err)
				}
				return output
			}
			objects := []string{"deployment/shop", "service/shop", "ingress/shop", "poddisruptionbudget/shop"}
			kubectl("apply", "-f", "-")
			kubectl("rollout", "status", "deployment/shop")
			before, pods := uidsOf(t, namespace, objects...), runningPods(t, namespace)
			spec := likeTheirs()
			c.change(&spec)
			shared.CreateApp(t, namespace, "shop", spec)
			message := readyMessage(t, namespace, "app/shop", "Deployment "+namespace+"/shop already exists")
			_, annotation, _ := strings.Cut(message, "set the annotation ")
			annotation, _, _ = strings.Cut(annotation, " ")
			kubectl(append(append([]string{"annotate"}, objects...), annotation)...)
			shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
			d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := uidsOf(t, namespace, objects...); got != before {
				t.Errorf("the UIDs of the objects are %s, want %s", got, before)
			}
			if kept := runningPods(t, namespace) == pods; kept != c.keeps {
				t.Errorf("the Pods are the same: %t, want %t", kept, c.keeps)
			}
			if n, want := len(d.Spec.Template.Spec.Containers), map[bool]int{true: 2, false: 1}[c.keeps]; n != want {
				t.Errorf("the Pods have %d containers, want %d", n, want)
			}
			if c.keeps {
				awaitSelectors(t, namespace, "app.kubernetes.io/name=shop", metav1.FormatLabelSelector(d.Spec.Selector))
			}
			shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec.Image = "shop:2" })
			shared.AppWith(t, namespace, "shop", "rolled out", func(app *v1alpha1.App) bool {
				return app.Status.Phase == v1alpha1.AppReady && runningPods(t, namespace) != pods
			})
			own := metav1.FormatLabelSelector(d.Spec.Selector) + ",windlass.dev/app=shop"
			awaitSelectors(t, namespace, own, own)

			pods = runningPods(t, namespace)
			kubectl("delete", "app/shop", "--cascade=orphan")
			if got := uidsOf(t, namespace, objects...); got != before || runningPods(t, namespace) != pods {
				t.Errorf("after the App was deleted, the UIDs of its children are %s, want %s", got, before)
			}
			marked := []string{"deployment/shop", "service/shop"}
			kubectl(append(append([]string{"annotate"}, marked...), "windlass.dev/last-applied-", "windlass.dev/app-spec-",
				"windlass.dev/adopted-template-")...)
			kubectl(append(append([]string{"label"}, marked...), "app.kubernetes.io/managed-by-")...)
			if runningPods(t, namespace) != pods {
				t.Error("the removal of the marks has replaced Pods")
			}
			owners := kubectl(append([]string{"get", "-o", "jsonpath={.items[*].metadata.ownerReferences}"}, objects...)...)
			if owners != "" {
				t.Errorf("the children have owners: %s", owners)
			}
		})
	}
}

// uidsOf returns the UIDs of objects, in one line.
func uidsOf(t *testing.T, namespace string, objects ...string) string {
	t.Helper()
	uids, err := shared.Kubectl(t.Context(), "", append([]string{
		"get", "-n", namespace, "-o", "jsonpath={.items[*].metadata.uid}",
	}, objects...)...)
	if err != nil {
		t.Fatal(err)
	}
	return uids
}

// runningPods returns the UIDs of the Pods of the chart that are not being deleted, in one line.
func runningPods(t *testing.T, namespace string) string {
	t.Helper()
	var uids []types.UID
	framework.Eventually(t, "the Pods", func(ctx context.Context) (bool, error) {
		list, err := shared.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/instance=release",
		})
		if err != nil {
			return false, err
		}
		uids = nil
		for i := range list.Items {
			if pod := &list.Items[i]; pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
				uids = append(uids, pod.UID)
			}
		}
		return len(uids) == 2, nil
	})
	return strings.Join(stringsOf(uids), " ")
}

func stringsOf(uids []types.UID) (all []string) {
	for _, uid := range uids {
		all = append(all, string(uid))
	}
	return all
}

// awaitSelectors waits until the Service and the PodDisruptionBudget have these selectors.
func awaitSelectors(t *testing.T, namespace, ofService, ofBudget string) {
	t.Helper()
	framework.Eventually(t, "the selectors "+ofService+" and "+ofBudget, func(ctx context.Context) (bool, error) {
		service, err := shared.Kube.CoreV1().Services(namespace).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		budget, err := shared.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		is := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})
		return is == ofService && metav1.FormatLabelSelector(budget.Spec.Selector) == ofBudget, nil
	})
}

func TestDatabaseAdoptsSecretAndClaim(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	annotations := map[string]string{"windlass.dev/adopt": "Database/shop"}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-credentials", Annotations: annotations},
		Type:       corev1.SecretTypeBasicAuth, // it cannot be changed
		Data: map[string][]byte{
			"username": []byte("app"), "password": []byte("kept"), "theirs": []byte("kept, too"),
		},
	}
	if _, err := shared.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: framework.SmallestDatabase().Storage.Size,
			}},
		},
	}
	if _, err := shared.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := []string{"secret/shop-credentials", "pvc/shop"}
	before := uidsOf(t, namespace, objects...)
	shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
	shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
	if got := uidsOf(t, namespace, objects...); got != before {
		t.Errorf("the UIDs are %s, want %s", got, before)
	}
	credentials := shared.Credentials(t, namespace, "shop")
	adopted, err := shared.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || adopted.Annotations["windlass.dev/made-for"] != "Database/shop" {
		t.Errorf("the claim was not adopted: %v", err)
	}
	if string(credentials.Data["password"]) != "kept" || string(credentials.Data["theirs"]) != "kept, too" {
		t.Errorf("the password is %q, and the other key %q", credentials.Data["password"], credentials.Data["theirs"])
	}
}
