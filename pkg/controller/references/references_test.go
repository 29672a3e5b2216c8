package references_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller/references"
)

// cached returns a Known of Secrets whose cache was filled from a fake API server.
func cached(t *testing.T, secrets ...*metav1.PartialObjectMetadata) references.Known {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme)
	for _, secret := range secrets {
		secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		if err := client.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	known, err := references.New(factory, corev1.SchemeGroupVersion.WithResource("secrets"))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), known.Informer().HasSynced) {
		t.Fatal("the cache has not synced")
	}
	return known
}

func TestKnownCachesOnlyIdentityAndVersion(t *testing.T) {
	going := metav1.NewTime(time.Unix(1, 0).UTC())
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: "uid-a", ResourceVersion: "7", DeletionTimestamp: &going,
		Labels: map[string]string{"some": "label"}, Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "a password",
		},
	}}
	known := cached(t, secret)
	object, err := known.Get("default", "a")
	if err != nil || object.GetUID() != "uid-a" || object.GetResourceVersion() != "7" ||
		!object.GetDeletionTimestamp().Equal(&going) {
		t.Errorf("it is %+v (%v)", object, err)
	}
	for _, stored := range known.Informer().GetStore().List() {
		is, err := meta.Accessor(stored)
		if err != nil {
			t.Fatal(err)
		}
		want := &metav1.ObjectMeta{
			Namespace: "default", Name: "a", UID: "uid-a", ResourceVersion: "7", DeletionTimestamp: &going,
		}
		if diff := cmp.Diff(metav1.Object(want), is); diff != "" {
			t.Errorf("the cache holds (-want +got):\n%s", diff)
		}
	}
}

func TestKnownReturnsNotFoundForMissingObject(t *testing.T) {
	if _, err := cached(t).Get("default", "a"); !apierrors.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
}
