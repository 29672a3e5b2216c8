//go:build integration

package integration

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

var platforms = kindOf[v1alpha1.PlatformSpec]{
	owner: owner{
		name:          "platform",
		clusterScoped: true,
		concerns: func(r framework.Request, namespace string) bool {
			ref := r.ObjectRef
			switch {
			case ref.Namespace == "":
				return ref.Name == namespace && ref.Resource == "platforms"
			case ref.Namespace != namespace || ref.Subresource != "":
				return false
			case slices.Contains([]string{"databases", "externaldatabases"}, ref.Resource):
				return r.Verb == "create" || r.Verb == "delete" // other requests may come from the controllers of the children
			}
			return slices.Contains([]string{"apps", "ats"}, ref.Resource) && ref.APIGroup != "apps"
		},
		children: []childType{
			{
				GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("apps"), child: "*-web", undecided: ofPlatform,
				theirs: `{"apiVersion":"windlass.dev/v1alpha1","kind":"App",` +
					`"metadata":{"annotations":{"windlass.dev/paused":"true"}},"spec":{"image":"theirs:1"}}`,
			},
			{
				GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("databases"), child: "*-db", undecided: ofPlatform,
				theirs: `{"apiVersion":"windlass.dev/v1alpha1","kind":"Database",` +
					`"metadata":{"annotations":{"windlass.dev/paused":"true"}},"spec":{"version":"16","storage":{"size":"1Gi"}}}`,
			},
			{
				GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"), child: "*-outside",
				// the names on the shared server
				undecided: append([][]string{{"spec", "databaseName"}, {"spec", "owner"}}, ofPlatform...),
				theirs: `{"apiVersion":"windlass.dev/v1alpha1","kind":"ExternalDatabase",` +
					`"metadata":{"annotations":{"windlass.dev/paused":"true"}},` +
					`"spec":{"connectionSecretRef":{"name":"theirs"},"databaseName":"theirs"}}`,
			},
			{
				GroupVersionResource: schema.GroupVersionResource{
					Group: "cnat.programming-kubernetes.info", Version: "v1", Resource: "ats",
				}, child: "*-task", undecided: ofPlatform,
				theirs: `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At",` +
					`"metadata":{"annotations":{"windlass.dev/paused":"true"}},` +
					`"spec":{"schedule":"2100-01-01T00:00:00Z","command":["theirs"]}}`,
			},
		},
		prepare: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			on.CreateReferences(t, namespace)
			externalDatabases.prepare(t, on, namespace)
		},
		ready: func(t *testing.T, on *framework.Installation, namespace string) {
			t.Helper()
			on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
		},
		waitForReason: func(t *testing.T, namespace, reason string) {
			t.Helper()
			shared.PlatformReason(t, namespace, reason)
		},
		requests: func(namespace string) []string {
			// look: confirms that the Platform exists before a component is created
			status, look := "update platforms/status /"+namespace, "get platforms /"+namespace
			return []string{
				"patch platforms /" + namespace, // the finalizer
				// records the component to create next, so that the operator does not adopt a forged child
				status,
				look, "create databases " + namespace + "/" + namespace + "-db", status,
				look, "create externaldatabases " + namespace + "/" + namespace + "-outside", status,
				look, "create apps " + namespace + "/" + namespace + "-web", status,
				"get apps " + namespace + "/" + namespace + "-web", // after beforeRollout: see the requests of an App
				look, "create ats " + namespace + "/" + namespace + "-task", status,
			}
		},
		restart: func(namespace string) []string { return externalDatabases.restart(namespace) },
	},
	everything: framework.EverythingOfPlatform,
	createWithSpec: func(t *testing.T, on *framework.Installation, namespace string, spec v1alpha1.PlatformSpec) {
		t.Helper()
		on.CreatePlatform(t, namespace, inNamespace(spec, namespace))
	},
	setSpec: func(t *testing.T, namespace string, spec v1alpha1.PlatformSpec) {
		t.Helper()
		shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec = inNamespace(spec, namespace) })
	},
	changes: framework.ChangesOfPlatform,
	fixed:   []string{"namespace"},
}

// ofPlatform lists the fields that differ between the children of two Platforms.
var ofPlatform = [][]string{{"metadata", "name"}, {"metadata", "labels", "app.kubernetes.io/part-of"}}

// inNamespace returns a copy of a spec with the given namespace. ofNamespace changes the ExternalDatabases in the copy.
func inNamespace(spec v1alpha1.PlatformSpec, namespace string) v1alpha1.PlatformSpec {
	spec = *spec.DeepCopy()
	spec.Namespace = namespace
	for _, c := range spec.Components {
		if c.ExternalDatabase != nil {
			*c.ExternalDatabase = ofNamespace(*c.ExternalDatabase, namespace)
		}
	}
	return spec
}
