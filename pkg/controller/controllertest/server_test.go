package controllertest_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// stored has the fields of a Deployment that the test compares.
type stored struct {
	Version, UID         string
	Generation           int64
	Replicas, Ready      int32
	Finalizers           []string
	Deleted              bool
	CustomAnnotationText string
}

func storedIn(d *appsv1.Deployment) stored {
	return stored{
		Version: d.ResourceVersion, UID: string(d.UID), Generation: d.Generation,
		Replicas: ptr.Deref(d.Spec.Replicas, 0), Ready: d.Status.ReadyReplicas,
		Finalizers: d.Finalizers, Deleted: d.DeletionTimestamp != nil, CustomAnnotationText: d.Annotations["text"],
	}
}

func TestServerStoresWhatAnAPIServerStores(t *testing.T) {
	client := kubefake.NewSimpleClientset()
	server := controllertest.NewServer(time.Now, client)
	deployments, ctx := client.AppsV1().Deployments("default"), t.Context()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: []string{"example.com/held"}},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
	}
	for _, step := range []struct {
		name  string
		write func(live *appsv1.Deployment) (*appsv1.Deployment, error)
		want  stored
	}{
		{"a create gets a UID, a version and generation 1", func(*appsv1.Deployment) (*appsv1.Deployment, error) {
			return deployments.Create(ctx, d, metav1.CreateOptions{})
		}, stored{Version: "101", UID: "uid-101", Generation: 1, Replicas: 1, Finalizers: d.Finalizers}},
		{"an update without a change keeps the version", func(live *appsv1.Deployment) (*appsv1.Deployment, error) {
			return deployments.Update(ctx, live, metav1.UpdateOptions{})
		}, stored{Version: "101", UID: "uid-101", Generation: 1, Replicas: 1, Finalizers: d.Finalizers}},
		{"an update of the status ignores the spec", func(live *appsv1.Deployment) (*appsv1.Deployment, error) {
			live.Spec.Replicas, live.Status.ReadyReplicas = ptr.To[int32](9), 1
			return deployments.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		}, stored{Version: "102", UID: "uid-101", Generation: 1, Replicas: 1, Ready: 1, Finalizers: d.Finalizers}},
		{"an update ignores the status", func(live *appsv1.Deployment) (*appsv1.Deployment, error) {
			live.Spec.Replicas, live.Status.ReadyReplicas = ptr.To[int32](2), 9
			return deployments.Update(ctx, live, metav1.UpdateOptions{})
		}, stored{Version: "103", UID: "uid-101", Generation: 2, Replicas: 2, Ready: 1, Finalizers: d.Finalizers}},
		{"a change of metadata keeps the generation", func(*appsv1.Deployment) (*appsv1.Deployment, error) {
			return deployments.Patch(ctx, "web", types.StrategicMergePatchType,
				[]byte(`{"metadata":{"uid":"uid-101","resourceVersion":"103","annotations":{"text":"a"}}}`), metav1.PatchOptions{})
		}, stored{
			Version: "104", UID: "uid-101", Generation: 2, Replicas: 2, Ready: 1, Finalizers: d.Finalizers,
			CustomAnnotationText: "a",
		}},
		{"a delete marks an object that has finalizers", func(*appsv1.Deployment) (*appsv1.Deployment, error) {
			err := deployments.Delete(ctx, "web", metav1.DeleteOptions{})
			live, _ := deployments.Get(ctx, "web", metav1.GetOptions{})
			return live, err
		}, stored{
			Version: "105", UID: "uid-101", Generation: 3, Replicas: 2, Ready: 1, Finalizers: d.Finalizers,
			CustomAnnotationText: "a", Deleted: true,
		}},
	} {
		live, _ := deployments.Get(ctx, "web", metav1.GetOptions{})
		got, err := step.write(live)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		controllertest.Equal(t, step.name, step.want, storedIn(got))
		live, err = deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		controllertest.Equal(t, step.name+": stored", step.want, storedIn(live))
		controllertest.Equal(t, step.name+": newest version", step.want.Version, server.Version())
	}
	if _, err := deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its last finalizer was removed, reading the object returned %v", err)
	}
}

func TestServerRejectsWriteWhosePreconditionDoesNotHold(t *testing.T) {
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", UID: "uid", ResourceVersion: "7"},
	}
	client := kubefake.NewSimpleClientset(object)
	controllertest.NewServer(time.Now, client)
	secrets, ctx := client.CoreV1().Secrets("default"), t.Context()
	older := object.DeepCopy()
	older.ResourceVersion = "6"
	for name, c := range map[string]struct {
		write    func() error
		rejected func(error) bool
	}{
		"update of an older version": {
			func() error { _, err := secrets.Update(ctx, older, metav1.UpdateOptions{}); return err }, apierrors.IsConflict,
		},
		"patch of another UID": {func() error {
			_, err := secrets.Patch(ctx, "s", types.MergePatchType,
				[]byte(`{"metadata":{"uid":"other"},"data":{"a":"Yg=="}}`), metav1.PatchOptions{})
			return err
		}, apierrors.IsInvalid},
		"patch of an older version": {func() error {
			_, err := secrets.Patch(ctx, "s", types.MergePatchType,
				[]byte(`{"metadata":{"uid":"other","resourceVersion":"6"}}`), metav1.PatchOptions{})
			return err
		}, apierrors.IsConflict},
		"delete of an older version": {func() error {
			return secrets.Delete(ctx, "s", metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("6")},
			})
		}, apierrors.IsConflict},
	} {
		if err := c.write(); !c.rejected(err) {
			t.Errorf("the %s returned %v", name, err)
		}
		live, err := secrets.Get(ctx, "s", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "object after the "+name, object, live)
	}
}

func TestServerSendsOneEventForEachWrite(t *testing.T) {
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", UID: "uid", ResourceVersion: "7"},
	}
	client := kubefake.NewSimpleClientset(object)
	controllertest.NewServer(time.Now, client)
	secrets, ctx := client.CoreV1().Secrets("default"), t.Context()
	events, err := secrets.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for _, value := range []string{"YQ==", "Yg=="} {
		if _, err := secrets.Patch(ctx, "s", types.MergePatchType, []byte(`{"data":{"a":"`+value+`"}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var versions []string
	for range 3 { // a watch begins with the existing object
		versions = append(versions, (<-events.ResultChan()).Object.(*corev1.Secret).ResourceVersion)
	}
	controllertest.Equal(t, "versions in the events", []string{"7", "101", "102"}, versions)
}

func TestServerStoreChangesSpecAndStatus(t *testing.T) {
	client := kubefake.NewSimpleClientset()
	server := controllertest.NewServer(time.Now, client)
	resource := appsv1.SchemeGroupVersion.WithResource("deployments")
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
		},
	}
	for _, want := range []stored{
		{Version: "101", UID: "uid-101", Generation: 1, Replicas: 1},
		{Version: "102", UID: "uid-101", Generation: 2, Replicas: 2, Ready: 2},
	} {
		if err := server.Store(client.Tracker(), resource, d); err != nil {
			t.Fatal(err)
		}
		live, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "stored", want, storedIn(live))
		d = live
		d.Spec.Replicas, d.Status.ReadyReplicas = ptr.To[int32](2), 2
	}
}
