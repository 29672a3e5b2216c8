package operator

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// object returns the metadata of an object.
func object(apiVersion, kind, namespace, name string) runtime.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
		},
	}
}

func TestWeighCountsObjectsOfKindsThatCanBeListed(t *testing.T) {
	for name, c := range map[string]struct {
		rejected string // the resource that cannot be listed, or "*"
		want     map[string]int
		err      string
	}{
		"all kinds":         {"", map[string]int{"shop": 3, "blog": 1}, ""},
		"all kinds but one": {"ats", map[string]int{"shop": 2, "blog": 1}, ""},
		"no kind":           {"*", nil, "listing ats: no"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := metadatafake.NewTestScheme()
			controllertest.ErrorContains(t, "", metav1.AddMetaToScheme(scheme))
			client := metadatafake.NewSimpleMetadataClient(scheme,
				object("cnat.programming-kubernetes.info/v1", "At", "shop", "at"),
				object("windlass.dev/v1alpha1", "App", "shop", "web"),
				object("windlass.dev/v1alpha1", "Database", "shop", "db"), object("windlass.dev/v1alpha1", "App", "blog", "web"))
			if c.rejected != "" {
				client.PrependReactor("list", c.rejected, func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("no")
				})
			}
			got, err := Weigh(t.Context(), client)
			controllertest.ErrorContains(t, c.err, err)
			controllertest.Equal(t, "weights", c.want, got)
		})
	}
}
