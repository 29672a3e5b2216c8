//go:build integration

package integration

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

var platforms = kindOf[v1alpha1.PlatformSpec]{
	resource: "platform",
	about: func(r cluster.Request, namespace string) bool {
		ref := r.ObjectRef
		switch {
		case ref.Namespace == "":
			return ref.Name == namespace && ref.Resource == "platforms"
		case ref.Namespace != namespace || ref.Subresource != "":
			return false
		case slices.Contains([]string{"databases", "externaldatabases"}, ref.Resource):
			return r.Verb == "create" || r.Verb == "delete" // the rest may be their own controllers'
		}
		return slices.Contains([]string{"apps", "ats"}, ref.Resource) && ref.APIGroup != "apps"
	},
	children: []childType{
		{
			GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("apps"), child: "*-web", undecided: ofPlatform,
			theirs: `{"apiVersion":"windlass.dev/v1alpha1","kind":"App","metadata":{"annotations":{"windlass.dev/paused":"true"}},"spec":{"image":"theirs:1"}}`,
		},
		{
			GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("databases"), child: "*-db", undecided: ofPlatform,
			theirs: `{"apiVersion":"windlass.dev/v1alpha1","kind":"Database","metadata":{"annotations":{"windlass.dev/paused":"true"}},"spec":{"version":"16","storage":{"size":"1Gi"}}}`,
		},
		{
			GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"), child: "*-outside",
			undecided: append([][]string{{"spec", "databaseName"}, {"spec", "owner"}}, ofPlatform...), // on a server that all share
			theirs:    `{"apiVersion":"windlass.dev/v1alpha1","kind":"ExternalDatabase","metadata":{"annotations":{"windlass.dev/paused":"true"}},"spec":{"connectionSecretRef":{"name":"theirs"},"databaseName":"theirs"}}`,
		},
		{
			GroupVersionResource: schema.GroupVersionResource{Group: "cnat.programming-kubernetes.info", Version: "v1", Resource: "ats"}, child: "*-task", undecided: ofPlatform,
			theirs: `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At","metadata":{"annotations":{"windlass.dev/paused":"true"}},"spec":{"schedule":"2100-01-01T00:00:00Z","command":["theirs"]}}`,
		},
	},
	everything: world.EverythingOfPlatform,
	refers: func(t *testing.T, on *place.Place, namespace string) {
		t.Helper()
		on.MakeReferences(t, namespace)
		externalDatabases.refers(t, on, namespace)
	},
	make: func(t *testing.T, on *place.Place, namespace string, spec v1alpha1.PlatformSpec) {
		t.Helper()
		on.CreatePlatform(t, namespace, inNamespace(spec, namespace))
	},
	set: func(t *testing.T, namespace string, spec v1alpha1.PlatformSpec) {
		t.Helper()
		shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec = inNamespace(spec, namespace) })
	},
	isReady: func(t *testing.T, on *place.Place, namespace string) {
		t.Helper()
		on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	},
	hasReason: func(t *testing.T, namespace, reason string) {
		t.Helper()
		shared.PlatformReason(t, namespace, reason)
	},
	costs: func(namespace string) []string {
		status, look := "update platforms/status /"+namespace, "get platforms /"+namespace // before a component is made
		return []string{
			"patch platforms /" + namespace, // the finalizer
			status,                          // what is about to be made, so that no forged child is taken for it
			look, "create databases " + namespace + "/" + namespace + "-db", status,
			look, "create externaldatabases " + namespace + "/" + namespace + "-outside", status,
			look, "create apps " + namespace + "/" + namespace + "-web", status,
			look, "create ats " + namespace + "/" + namespace + "-task", status,
		}
	},
	restarts: func(namespace string) []string { return externalDatabases.restarts(namespace) },
	changes:  world.ChangesOfPlatform,
	fixed:    []string{"namespace"},
}

// ofPlatform are the fields in which a child of one Platform differs from that of
// another.
var ofPlatform = [][]string{{"metadata", "name"}, {"metadata", "labels", "app.kubernetes.io/part-of"}}

// inNamespace is a spec for a namespace.
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
