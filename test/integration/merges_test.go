//go:build integration

package integration

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestReconcileReplacesWhatMergeCannotRepair makes two kinds of changes as another client: changes with which the API
// server rejects the desired fields, and changes that a strategic merge does not revert. Values of an autoscaler and of
// `kubectl rollout restart` must stay.
func TestReconcileReplacesWhatMergeCannotRepair(t *testing.T) {
	t.Parallel()
	ofApp, ofDatabase, client := shared.NewNamespace(t), shared.NewNamespace(t), dynamicClient(t)
	shared.CreateApp(t, ofApp, "shop", v1alpha1.AppSpec{
		Image: "registry.example.com/shop:1", Probe: &v1alpha1.AppProbe{Path: "/"},
		Env: []corev1.EnvVar{{Name: "FIRST", Value: "1"}, {Name: "SECOND", Value: "2"}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		},
		Autoscaling: &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 30},
	})
	shared.CreateDatabase(t, ofDatabase, "shop", v1alpha1.DatabaseSpec{
		Version: "17", Storage: v1alpha1.DatabaseStorage{Size: resource.MustParse("1Gi")},
	})
	shared.AppIn(t, ofApp, "shop", v1alpha1.AppReady)
	shared.DatabaseIn(t, ofDatabase, "shop", v1alpha1.DatabaseReady)

	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	statefulSets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	budgets := schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	change := func(resource schema.GroupVersionResource, namespace string, kind types.PatchType, patch string) {
		_, err := client.Resource(resource).Namespace(namespace).Patch(t.Context(), "shop", kind, []byte(patch),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("changing %s: %v", resource.Resource, err)
		}
	}
	const restarted = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"noon"}}}}}`
	change(statefulSets, ofDatabase, types.MergePatchType, restarted)
	change(deployments, ofApp, types.MergePatchType, restarted)
	change(deployments, ofApp, types.MergePatchType, `{"spec":{"replicas":20}}`)

	const container, pod = "/spec/template/spec/containers/0", "/spec/template/spec"
	replace := func(path, value string) string { return `{"op":"replace","path":"` + path + `","value":` + value + `}` }
	add := func(path, value string) string { return `{"op":"add","path":"` + path + `","value":` + value + `}` }
	remove := func(path string) string { return `{"op":"remove","path":"` + path + `"}` }
	const rejected, accepted = http.StatusUnprocessableEntity, http.StatusOK
	once, twice, three := []int{accepted}, []int{rejected, accepted}, []int{rejected, rejected, accepted}
	localhost := replace(pod+"/securityContext/seccompProfile", `{"type":"Localhost","localhostProfile":"theirs.json"}`)
	for _, c := range []struct {
		name, namespace string
		child           schema.GroupVersionResource
		patch           string
		answers         []int // status codes of the responses to the patches of the operator
	}{
		{"a variable gets the name of another", ofApp, deployments, replace(container+"/env/0/name", `"SECOND"`), once},
		{
			"a variable is repeated with another value", ofApp, deployments,
			add(container+"/env/-", `{"name":"FIRST","value":"else"}`), once,
		},
		{"a variable gets another source", ofApp, deployments,
			replace(container+"/env/0", `{"name":"FIRST","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}`), twice},
		{"a port gets another number", ofApp, deployments, replace(container+"/ports/0/containerPort", "8081"), once},
		{
			"a port is repeated under another name", ofApp, deployments,
			add(container+"/ports/-", `{"name":"web","containerPort":8080}`), once,
		},
		{"a probe gets another handler", ofApp, deployments,
			remove(container+"/readinessProbe/httpGet") + "," + add(container+"/readinessProbe/tcpSocket",
				`{"port":8080}`), twice},
		{"the Pods get another seccomp profile", ofApp, deployments, localhost, three},
		{"a port of a Service gets another number", ofApp, services, replace("/spec/ports/0/port", "8081"), once},
		{
			"a budget gets the other limit", ofApp, budgets, remove("/spec/maxUnavailable") + "," +
				add("/spec/minAvailable", "1"), three,
		},
		{"a probe of a Database gets another handler", ofDatabase, statefulSets,
			remove(container+"/readinessProbe/exec") + "," + add(container+"/readinessProbe/tcpSocket", `{"port":5432}`), twice},
		{"the Pod of a Database gets another seccomp profile", ofDatabase, statefulSets, localhost, three},
	} {
		t.Run(c.name, func(t *testing.T) {
			child := childType{GroupVersionResource: c.child, child: "shop"}
			answers := func() (codes []int) {
				controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
					if r.ObjectRef.Namespace != c.namespace || r.ObjectRef.Resource != c.child.Resource || r.Verb != "patch" {
						return false
					}
					codes = append(codes, r.ResponseStatus.Code)
					return false
				})
				return codes
			}
			before, earlier := asWritten(child.get(t, client, c.namespace)), len(answers())
			change(c.child, c.namespace, types.JSONPatchType, "["+c.patch+"]")
			diff := ""
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the last difference (-want +got):\n%s", diff)
				}
			})
			framework.Eventually(t, "the "+c.child.Resource+" to be corrected", func(context.Context) (bool, error) {
				diff = cmp.Diff(before, asWritten(child.get(t, client, c.namespace)))
				return diff == "", nil
			})
			got := answers()[earlier:]
			for i := slices.Index(got, http.StatusConflict); i >= 0; i = slices.Index(got, http.StatusConflict) {
				got = got[i+1:] // the operator tries all merges again with the newest version
			}
			if diff := cmp.Diff(c.answers, got); diff != "" {
				t.Errorf("responses to patches (-want +got):\n%s", diff)
			}
		})
	}
}
