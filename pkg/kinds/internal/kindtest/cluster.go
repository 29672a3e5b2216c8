// Package kindtest tests kinds on fake clientsets: a Cluster has the clientsets and the caches of one process, and a
// Fixture reconciles one object of a kind in a Cluster.
package kindtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"
	gatewayscheme "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
	windlassfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	windlassscheme "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Cluster is a cluster of fake clientsets, with the caches of one process. While no informer runs, the
// caches hold the objects that were stored at the last Observe, so that a test decides how outdated the
// caches are.
type Cluster struct {
	kinds.Cluster
	Kube     *kubefake.Clientset
	Windlass *windlassfake.Clientset
	Gateway  *gatewayfake.Clientset
	Metadata *metadatafake.FakeMetadataClient
	// Journal records the reads of Kube, Windlass and Gateway, and the writes except the writes of Store and Remove.
	Journal *controllertest.Journal
	Events  *controllertest.Recorder
	Clock   *clocktesting.FakeClock

	// T is the test.
	T testing.TB

	server *controllertest.Server
}

// NewCluster returns a cluster that has these objects, with empty caches. An object without a UID or a
// resource version gets one.
func NewCluster(t testing.TB, objects ...runtime.Object) *Cluster {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		T: t, Kube: kubefake.NewSimpleClientset(), Windlass: windlassfake.NewSimpleClientset(),
		Gateway:  gatewayfake.NewSimpleClientset(),
		Metadata: metadatafake.NewSimpleMetadataClient(scheme),
		Events:   &controllertest.Recorder{}, Clock: clocktesting.NewFakeClock(time.Now()),
	}
	c.server = controllertest.NewServer(c.Clock.Now, c.Kube, c.Windlass, c.Gateway)
	c.Journal = controllertest.NewJournal(c.Kube, c.Windlass, c.Gateway)
	c.Restart()
	for i, object := range objects {
		c.add(object.DeepCopyObject(), i+1)
	}
	return c
}

// add stores an object. If the object has no UID or no resource version, add derives it from n.
func (c *Cluster) add(object runtime.Object, n int) {
	c.T.Helper()
	tracker, resource := c.stored(object)
	accessor, err := meta.Accessor(object)
	if err == nil {
		if accessor.GetUID() == "" {
			accessor.SetUID(types.UID("uid-" + strconv.Itoa(n)))
		}
		if accessor.GetResourceVersion() == "" {
			accessor.SetResourceVersion(strconv.Itoa(n))
		}
		err = tracker.Create(resource, object, accessor.GetNamespace())
	}
	if err != nil {
		c.T.Fatalf("adding %T: %v", object, err)
	}
}

// Restart replaces the caches with empty caches, as if the process had started again.
func (c *Cluster) Restart() {
	c.Cluster = kinds.Cluster{
		Cluster: cluster.Cluster{
			Kube: c.Kube, Owned: informers.NewSharedInformerFactory(c.Kube, 0),
			Others: metadatainformer.NewSharedInformerFactory(c.Metadata, 0),
			All:    metadatainformer.NewSharedInformerFactory(c.Metadata, 0),
		},
		Windlass: c.Windlass, Kinds: externalversions.NewSharedInformerFactory(c.Windlass, 0),
		Gateway: c.Gateway, Routes: gatewayinformers.NewSharedInformerFactory(c.Gateway, 0),
	}
}

// Runtime returns the dependencies of a controller in this cluster.
func (c *Cluster) Runtime() controller.Runtime {
	return controller.Runtime{Events: c.Events, Clock: c.Clock}
}

// Store adds or changes objects as other clients and controllers do, with spec and status.
func (c *Cluster) Store(objects ...runtime.Object) {
	c.T.Helper()
	for _, object := range objects {
		tracker, resource := c.stored(object)
		if err := c.server.Store(tracker, resource, object); err != nil {
			c.T.Fatalf("storing %T: %v", object, err)
		}
	}
}

// Remove removes objects as other clients do, whether or not they have finalizers.
func (c *Cluster) Remove(objects ...runtime.Object) {
	c.T.Helper()
	for _, object := range objects {
		tracker, resource := c.stored(object)
		accessor, err := meta.Accessor(object)
		if err == nil {
			err = tracker.Delete(resource, accessor.GetNamespace(), accessor.GetName())
		}
		if err != nil {
			c.T.Fatalf("removing %T: %v", object, err)
		}
	}
}

// Eventually waits at most a minute until holds returns true, while controllers run. The clock moves
// slowly: fast enough for retries after a reconcile with an outdated cache, and too slowly for a resync.
func (c *Cluster) Eventually(what string, holds func() bool) {
	c.T.Helper()
	err := wait.PollUntilContextTimeout(c.T.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			c.Clock.Step(100 * time.Microsecond)
			return holds(), nil
		})
	if err != nil {
		c.T.Fatalf("waiting for %s: %v; writes: %v", what, err, c.Journal.Writes())
	}
}

// builtIn and own are the types that the kinds cache.
var (
	builtIn = []runtime.Object{
		&corev1.Pod{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{},
		&corev1.Namespace{},
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &networkingv1.Ingress{}, &autoscalingv2.HorizontalPodAutoscaler{},
		&policyv1.PodDisruptionBudget{},
	}
	own = []runtime.Object{
		&cnatv1.At{}, &v1alpha1.App{}, &v1alpha1.Database{}, &v1alpha1.ExternalDatabase{}, &v1alpha1.Platform{},
	}
)

// Observe makes the caches hold all stored objects.
func (c *Cluster) Observe() {
	c.T.Helper()
	for _, object := range builtIn {
		_, resource := c.stored(object)
		var owned, others, all []any
		for _, object := range c.list(object) {
			metadata := Metadata(c.T, object)
			all = append(all, identityOf(metadata))
			if metadata.Labels[controller.ManagedByLabel] != controller.ManagedByWindlass {
				others = append(others, identityOf(metadata))
				continue
			}
			trimmed, err := pods.Trim(object)
			if err != nil {
				c.T.Fatal(err)
			}
			owned = append(owned, trimmed)
		}
		if resource.Resource == "namespaces" {
			c.replace(c.All.ForResource(resource).Informer(), all)
			continue
		}
		informer, err := c.Owned.ForResource(resource)
		if err != nil {
			c.T.Fatal(err)
		}
		c.replace(informer.Informer(), owned)
		c.replace(c.Others.ForResource(resource).Informer(), others)
	}
	for _, object := range own {
		_, resource := c.stored(object)
		informer, err := c.Kinds.ForResource(resource)
		if err != nil {
			c.T.Fatal(err)
		}
		c.replace(informer.Informer(), c.all(object))
	}
	routes := c.Routes.Gateway().V1()
	c.replace(routes.HTTPRoutes().Informer(), c.all(&gatewayv1.HTTPRoute{}))
	c.replace(routes.GRPCRoutes().Informer(), c.all(&gatewayv1.GRPCRoute{}))
}

// all returns the stored objects with the same type as object, for a cache.
func (c *Cluster) all(object runtime.Object) (all []any) {
	c.T.Helper()
	for _, object := range c.list(object) {
		all = append(all, object)
	}
	return all
}

func (c *Cluster) replace(informer cache.SharedIndexInformer, objects []any) {
	c.T.Helper()
	if err := informer.GetStore().Replace(objects, c.server.Version()); err != nil {
		c.T.Fatal(err)
	}
}

// list returns the stored objects with the same type as object.
func (c *Cluster) list(object runtime.Object) []runtime.Object {
	c.T.Helper()
	tracker, resource := c.stored(object)
	list, err := tracker.List(resource, kindOf(c.T, object), metav1.NamespaceAll)
	var objects []runtime.Object
	if err == nil {
		objects, err = meta.ExtractList(list)
	}
	if err != nil {
		c.T.Fatalf("listing %s: %v", resource.Resource, err)
	}
	return objects
}

// stored returns the tracker that stores an object, and the object's resource.
func (c *Cluster) stored(object runtime.Object) (clienttesting.ObjectTracker, schema.GroupVersionResource) {
	c.T.Helper()
	kind := kindOf(c.T, object)
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if windlassscheme.Scheme.Recognizes(kind) {
		return c.Windlass.Tracker(), resource
	}
	if gatewayscheme.Scheme.Recognizes(kind) {
		return c.Gateway.Tracker(), resource
	}
	return c.Kube.Tracker(), resource
}

func kindOf(t testing.TB, object runtime.Object) schema.GroupVersionKind {
	t.Helper()
	for _, scheme := range []*runtime.Scheme{windlassscheme.Scheme, kubescheme.Scheme, gatewayscheme.Scheme} {
		if known, _, err := scheme.ObjectKinds(object); err == nil {
			return known[0]
		}
	}
	t.Fatalf("no clientset has %T", object)
	return schema.GroupVersionKind{}
}

// Metadata returns the metadata of an object, as a metadata client reads it.
func Metadata(t testing.TB, object runtime.Object) *metav1.PartialObjectMetadata {
	t.Helper()
	accessor, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	metadata := meta.AsPartialObjectMetadata(accessor)
	metadata.SetGroupVersionKind(kindOf(t, object))
	return metadata
}

// identityOf returns the part of the metadata that the caches of package references keep.
func identityOf(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
		DeletionTimestamp: object.DeletionTimestamp,
	}}
}
