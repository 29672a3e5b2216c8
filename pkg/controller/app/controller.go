// Package app runs services: it takes an App to ConfigMap, Deployment, Service,
// Ingress, autoscaler and disruption budget, and keeps them so.
package app

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/builtin"
	"windlass.dev/windlass/pkg/controller/internal/references"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// recheckAfter is when an App and the versions of its children are looked at without an event.
const recheckAfter = 10 * time.Minute

// Clients are what an App's controller talks to the API server with.
type Clients struct {
	Kube     kubernetes.Interface
	Windlass versioned.Interface
}

// Informers are the caches. They are started by the caller, after New and before
// the controller runs.
type Informers struct {
	// Kube selects the label app.kubernetes.io/managed-by=windlass.
	Kube     informers.SharedInformerFactory
	Windlass externalversions.SharedInformerFactory
	// Others selects what Kube does not: it is of the Secrets and ConfigMaps that users
	// name, of which the data stays where it is.
	Others metadatainformer.SharedInformerFactory
	// Room says when an object that exceeded its budget can be cached. Nil means at once.
	Room controller.Room
}

// New returns the controller of App.
func New(clients Clients, in Informers, events controller.EventRecorder, clk clock.WithTicker) (*controller.Controller, error) {
	apps := in.Windlass.Windlass().V1alpha1().Apps()
	refs, err := newNamed(clients.Kube.CoreV1(), in)
	if err != nil {
		return nil, err
	}
	if err := apps.Informer().AddIndexers(cache.Indexers{referencesIndex: referencesIn}); err != nil {
		return nil, fmt.Errorf("indexing Apps: %w", err)
	}
	queue := controller.NewQueue("app", clk)
	pipeline := newPipeline(clients, in, refs, events, clk)
	c := controller.New("app", queue, pipeline.Sync)
	c.Watch(apps.Informer(), controller.Self(queue, pipeline.Guard))
	owner := controller.Owner(queue, v1alpha1.SchemeGroupVersion.WithKind("App").GroupKind(), meta.RESTScopeNameNamespace)
	for _, child := range pipeline.Reconciler.(*reconciler).children {
		c.Watch(child.Informer(), owner)
	}
	for kind, known := range refs.of {
		referrer := controller.Referrer(queue, func(obj metav1.Object) []controller.Key {
			return references.Referrers(apps.Informer().GetIndexer(), referencesIndex, indexed(reference{kind: kind, name: obj.GetName()}, obj.GetNamespace()))
		})
		for _, informer := range known.Informers() {
			c.Watch(informer, referrer)
		}
	}
	return c, nil
}

// newPipeline returns what does a pass.
func newPipeline(clients Clients, in Informers, refs *named, events controller.EventRecorder, clk clock.PassiveClock) *controller.Pipeline[*v1alpha1.App] {
	apps, guard := in.Windlass.Windlass().V1alpha1().Apps(), controller.NewGuard()
	lister := apps.Lister()
	r := &reconciler{apps: clients.Windlass.WindlassV1alpha1(), known: refs.known, read: refs.read, digests: newDigests()}
	r.children, r.deployments = declare(builtin.Cluster{Client: clients.Kube, Informers: in.Kube}, guard)
	return &controller.Pipeline[*v1alpha1.App]{
		Get: func(key controller.Key) (*v1alpha1.App, error) {
			return lister.Apps(key.Namespace).Get(key.Name)
		},
		Client: func(namespace string) controller.Client[*v1alpha1.App] {
			return clients.Windlass.WindlassV1alpha1().Apps(namespace)
		},
		Store:        apps.Informer().GetStore(),
		Reconciler:   r,
		RecheckAfter: recheckAfter,
		Room:         in.Room,
		Guard:        guard,
		Events:       events,
		Clock:        clk,
	}
}

// referencesIndex finds Apps by what they name.
const referencesIndex = "references"

func referencesIn(obj any) ([]string, error) {
	app, ok := obj.(*v1alpha1.App)
	if !ok {
		return nil, nil
	}
	var keys []string
	for _, ref := range referencesOf(app) {
		keys = append(keys, indexed(ref, app.Namespace))
	}
	return keys, nil
}

func indexed(ref reference, namespace string) string { return namespace + "/" + ref.String() }
