// Package database reconciles Databases: it runs PostgreSQL with three Secrets, a Service, a PersistentVolumeClaim and
// a StatefulSet. The script server.sh in the Pod applies the settings Secret to PostgreSQL, also while PostgreSQL runs.
// The operator generates a password only for a rotation, or if the connection Secret has none. The
// PersistentVolumeClaim stays when the Database is deleted, unless deletionPolicy is Delete.
package database

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	// resync is how often a Database is reconciled without an event.
	resync = 10 * time.Minute
	// finalizerName is the finalizer that the engine removes after Finalize has succeeded.
	finalizerName = "windlass.dev/database"
)

// Connector connects to the servers of Databases. A *postgresql.Connector is a Connector.
type Connector interface {
	// Settings logs in to a server with the host, the role and the password in as, and returns the settings that the
	// server has applied. namespace is the namespace of the Database. Settings changes nothing on the server, and returns
	// when ctx ends. An error has a class of package postgresql: LoginRejected if the server does not accept the role
	// with this password, and Silent if it does not respond. Several goroutines may call Settings at the same time.
	Settings(ctx context.Context, namespace string, as postgresql.Settings) (postgresql.ServerSettings, error)
}

// Options configure the controller of Database.
type Options struct {
	// Image is the image, without a tag, of Databases without spec.image. It defaults to DefaultImage.
	Image string
	// Connector connects to the servers of Databases, to read the settings that they have applied. If Connector is nil,
	// the operator assumes that servers apply settings at once, reports no rejected settings, and rotates no login.
	Connector Connector
	// Users finds the known users of a previous login. Nil means that there are none.
	Users credentials.Users
	// VolumeMetrics serves the metric windlass_database_volume_info, whose labels have the names of objects.
	VolumeMetrics bool
}

// New returns the controller of Database.
func New(c kinds.Cluster, r controller.Runtime, o Options) (*controller.Controller, error) {
	kind, err := declare(c, r, o)
	if err != nil {
		return nil, err
	}
	made, err := kind.Controller(r)
	if err != nil {
		return nil, err
	}
	made.Watch(c.Owned.Core().V1().Pods().Informer(), restartCounter())
	if o.VolumeMetrics {
		made.Watch(kind.Informer, newVolumeLister())
	}
	return made, nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("Database")

// declare returns the Kind that declares Database to the engine.
func declare(
	c kinds.Cluster, r controller.Runtime, o Options,
) (kind controller.Kind[*v1alpha1.Database], err error) {
	watched, err := pods.Watched(c.Owned)
	if err != nil {
		return kind, err
	}
	own := c.Kinds.Windlass().V1alpha1().Databases()
	secrets, err := newNamedCertificates(c, own.Informer(), r.Clock)
	if err != nil {
		return kind, err
	}
	users := o.Users
	if users == nil {
		users = func(*corev1.Secret) []string { return nil }
	}
	reconciler := &reconciler{
		pod:        func(ns, name string) (*corev1.Pod, error) { return watched.Lister().Pods(ns).Get(name) },
		podStore:   watched.Informer().GetStore(),
		databases:  c.Windlass.WindlassV1alpha1(),
		pods:       c.Kube.CoreV1(),
		rejections: controller.NewRejections[string](r.Clock),
		absences:   utilcache.NewExpiringWithClock(r.Clock),
		readings:   utilcache.NewExpiringWithClock(r.Clock),
		connector:  o.Connector, named: secrets,
		users:  users,
		events: r.Events,
		image:  cmp.Or(o.Image, DefaultImage),
		clock:  r.Clock,
	}
	return children.Kind[*v1alpha1.Database, *scope]{
		Kind: controller.Kind[*v1alpha1.Database]{
			GroupVersionKind: groupVersionKind,
			Informer:         own.Informer(),
			Lister:           controller.ListerOf(own.Lister().Databases),
			Client:           controller.ClientOf[*v1alpha1.Database](c.Windlass.WindlassV1alpha1().Databases),
			Finalizer:        controller.Finalizer[*v1alpha1.Database]{Name: finalizerName, Finalize: reconciler.Finalize},
			Resync:           resync,
			References: append(secrets.References(),
				controller.Reference{Informer: watched.Informer(), Referrers: runners}),
		},
		Scope:    newScope,
		Prepare:  reconciler.prepare,
		Children: reconciler.declareChildren(c),
		Finish:   reconciler.finish,
	}.Declare()
}

// runners returns the key of the Database that the labels of a Pod name, or nil.
func runners(pod metav1.Object) []controller.Key {
	labels := pod.GetLabels()
	if labels[nameLabel] != nameLabelValue {
		return nil
	}
	return []controller.Key{{Namespace: pod.GetNamespace(), Name: labels[instanceLabel]}}
}
