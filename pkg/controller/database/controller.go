// Package database runs PostgreSQL: it takes a Database to Secret, Service, volume
// claim and StatefulSet, and keeps them so. The password is made once and then is
// what the Secret says; the claim outlives the Database unless that says otherwise.
package database

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/internal/pods"
)

const (
	// resync is when a Database is compared with its children without an event.
	resync = 10 * time.Minute
	// finalizerName holds a Database until its volume is dealt with.
	finalizerName = "windlass.dev/database"
)

// Options are what the operator's flags say of Databases.
type Options struct {
	// Image is that of a Database that names none, without the tag. Empty means DefaultImage.
	Image string
}

// New returns the controller of Database.
func New(c cluster.Cluster, r controller.Runtime, o Options) (*controller.Controller, error) {
	kind, err := declare(c, r, o)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r), nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("Database")

// declare declares Database to the engine.
func declare(c cluster.Cluster, r controller.Runtime, o Options) (kind controller.Kind[*v1alpha1.Database], err error) {
	watched, err := pods.Watched(c.Owned)
	if err != nil {
		return kind, err
	}
	guard := controller.NewGuard()
	reconciler := newReconciler(c, guard)
	reconciler.refusals, reconciler.clock, reconciler.image = newRefusals(r.Clock), r.Clock, cmp.Or(o.Image, DefaultImage)
	return controller.Kind[*v1alpha1.Database]{
		GroupVersionKind: groupVersionKind,
		Informer:         c.Own.Windlass().V1alpha1().Databases().Informer(),
		Client: func(namespace string) controller.Client[*v1alpha1.Database] {
			return c.Windlass.WindlassV1alpha1().Databases(namespace)
		},
		Reconciler: reconciler,
		Guard:      guard,
		Finalizer:  finalizerName,
		Resync:     resync,
		Owned:      []cache.SharedIndexInformer{reconciler.secrets.Informer, reconciler.services.Informer, reconciler.statefulSets.Informer},
		References: []controller.Reference{
			{Informer: reconciler.claims.Informer, Referrers: claimants}, // a claim has no owner
			{Informer: watched.Informer(), Referrers: runners},
		},
	}, nil
}

// claimants is the Database of a claim, which bears its name.
func claimants(claim metav1.Object) []controller.Key {
	return []controller.Key{{Namespace: claim.GetNamespace(), Name: claim.GetName()}}
}

// runners is the Database of a Pod, which bears its labels.
func runners(pod metav1.Object) []controller.Key {
	labels := pod.GetLabels()
	if labels[nameLabel] != nameLabelValue {
		return nil
	}
	return []controller.Key{{Namespace: pod.GetNamespace(), Name: labels[instanceLabel]}}
}
