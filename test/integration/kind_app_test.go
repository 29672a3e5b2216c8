//go:build integration

package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

var apps = kindOf[v1alpha1.AppSpec]{
	owner: owner{
		name:     "app",
		concerns: inNamespaceOf,
		children: []childType{
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
				child:                framework.ConfigOfEverything, mounted: true,
				theirs: `{"apiVersion":"v1","kind":"ConfigMap","data":{"theirs":"yes"}}`,
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "apps", Version: "v1", Resource: "deployments",
				}, child: "shop",
				theirs: `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchLabels":{"a":"b"}},` +
					`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"theirs","image":"theirs:1"}]}}}}`,
				undecided: [][]string{
					{"metadata", "annotations", "windlass.dev/inputs"}, {
						"spec", "template", "metadata", "annotations", "windlass.dev/inputs-digest",
					},
					{"spec", "template", "metadata", "annotations", "windlass.dev/template-digest"},
					{"spec", "replicas"}, // the autoscaler sets it
				},
			},
			{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, child: "shop",
				theirs:    `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":1}]}}`,
				undecided: [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "networking.k8s.io", Version: "v1", Resource: "ingresses",
				}, child: "shop",
				theirs: `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",` +
					`"spec":{"defaultBackend":{"service":{"name":"theirs","port":{"number":1}}}}}`,
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes",
				}, child: "shop",
				theirs: `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute",` +
					`"spec":{"hostnames":["theirs.example.com"]}}`,
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers",
				}, child: "shop",
				theirs: `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":2,` +
					`"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"theirs"}}}`,
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "policy", Version: "v1", Resource: "poddisruptionbudgets",
				}, child: "shop",
				theirs: `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":1,` +
					`"selector":{"matchLabels":{"a":"b"}}}}`,
			},
		},
		prepare: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			on.CreateReferences(t, namespace)
		},
		ready: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			on.AppIn(t, namespace, "shop", v1alpha1.AppReady)
		},
		waitForReason: func(t *testing.T, namespace, reason string) {
			t.Helper()
			shared.AppReason(t, namespace, "shop", reason)
		},
		requests: func(namespace string) []string {
			return []string{
				"get configmaps " + namespace + "/settings",
				"get secrets " + namespace + "/payment",
				"get secrets " + namespace + "/shop-credentials",
				"create deployments " + namespace + "/shop", // a dry run
				"create pods " + namespace + "/shop-before-rollout",
				"create configmaps " + namespace + "/" + framework.ConfigOfEverything,
				"update apps/status " + namespace + "/shop",        // the Pod exists
				"patch pods " + namespace + "/shop-before-rollout", // lets the Pod run
				"update apps/status " + namespace + "/shop",        // the command has succeeded
				"patch pods " + namespace + "/shop-before-rollout", // removes the finalizer
				"get apps " + namespace + "/shop",                  // an App with a status lacks its children
				"create deployments " + namespace + "/shop",
				"create services " + namespace + "/shop",
				"create ingresses " + namespace + "/shop",
				"create httproutes " + namespace + "/shop",
				"create horizontalpodautoscalers " + namespace + "/shop",
				"create poddisruptionbudgets " + namespace + "/shop",
				"update apps/status " + namespace + "/shop", // Deploying
				"update apps/status " + namespace + "/shop", // Ready
			}
		},
		restart: func(string) []string { return nil },
	},
	everything: framework.EverythingOfApp,
	createWithSpec: func(t *testing.T, on *framework.Installation, namespace string, spec v1alpha1.AppSpec) {
		t.Helper()
		on.CreateApp(t, namespace, "shop", spec)
	},
	setSpec: func(t *testing.T, namespace string, spec v1alpha1.AppSpec) {
		t.Helper()
		shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec = spec })
	},
	changes:    framework.ChangesOfApp,
	shortForms: []string{"port", "probe"},
}
