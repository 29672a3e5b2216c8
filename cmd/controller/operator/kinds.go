// Package operator assembles the operator from its clients, its caches, and the controllers of its kinds.
package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	kindsscheme "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/pkg/kinds/app"
	"windlass.dev/windlass/pkg/kinds/at"
	"windlass.dev/windlass/pkg/kinds/database"
	"windlass.dev/windlass/pkg/kinds/externaldatabase"
	"windlass.dev/windlass/pkg/kinds/platform"
	"windlass.dev/windlass/pkg/postgresql"
)

// Options configures the kinds.
type Options struct {
	// Namespace is the only namespace that the operator works in. Empty means all namespaces.
	Namespace string
	// AtImage is the image of an At without spec.image. Empty means at.DefaultImage.
	AtImage string
	// PostgreSQLImage is the image, without the tag, of a Database without spec.image. Empty means
	// database.DefaultImage.
	PostgreSQLImage string
	// ObjectNameMetrics serves metrics whose labels have the names of objects.
	ObjectNameMetrics bool
	// ConnectToDatabases makes the operator log in to the servers of Databases: see database.Options.
	ConnectToDatabases bool
	// DatabaseConnector, if it is set, connects to the servers of Databases in place of the connector of the operator.
	// Tests with simulated servers set it.
	DatabaseConnector database.Connector
	ExternalDatabases postgresql.Options
	// StoredSecrets reads Secrets from the API server, without the writes of a plan: see externaldatabase.New. Nil means
	// that there is no plan.
	StoredSecrets coreclient.SecretsGetter
	// OwnNamespaces are the namespaces of the operator itself. No Platform may use them.
	OwnNamespaces []string
	// Clock is the clock of all kinds. Nil means the real clock.
	Clock clock.WithTicker
}

// Controllers holds the controllers of all kinds.
type Controllers struct {
	All []*controller.Controller
	// Unconverted are the controllers whose caches the API server fills without the conversion webhook.
	// Readiness waits only for these caches: while no replica is ready, the API server cannot reach the
	// webhook.
	Unconverted []*controller.Controller
}

// Kinds returns a controller for every kind. If o.Namespace is set, it omits Platform. Only this function
// registers kinds.
func Kinds(ctx context.Context, caches Caches, events controller.EventRecorder, o Options) (Controllers, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	in, with := caches.Cluster, controller.Runtime{Events: events, Clock: o.Clock, Room: caches.limit.Fits}
	ats, err := at.New(in, with, at.Options{DefaultImage: o.AtImage})
	if err != nil {
		return Controllers{}, fmt.Errorf("creating the controller of At: %w", err)
	}
	apps, err := app.New(in, with)
	if err != nil {
		return Controllers{}, fmt.Errorf("creating the controller of App: %w", err)
	}
	o.ExternalDatabases.Observe = externaldatabase.Observe
	toPods, err := podConnector(o)
	if err != nil {
		return Controllers{}, err
	}
	users := app.NewUsers(in)
	databases, err := database.New(in, with, database.Options{
		Image: o.PostgreSQLImage, Connector: toPods, Users: users.OfPreviousContent, VolumeMetrics: o.ObjectNameMetrics,
	})
	if err != nil {
		return Controllers{}, fmt.Errorf("creating the controller of Database: %w", err)
	}
	connector, err := postgresql.NewConnector(o.ExternalDatabases)
	if err != nil {
		return Controllers{}, err
	}
	externalDatabases, err := externaldatabase.New(in, with, connector, users.OfPreviousContent, o.StoredSecrets)
	if err != nil {
		return Controllers{}, fmt.Errorf("creating the controller of ExternalDatabase: %w", err)
	}
	served := Controllers{
		All:         []*controller.Controller{ats, apps, databases, externalDatabases},
		Unconverted: []*controller.Controller{apps, databases, externalDatabases},
	}
	if o.Namespace != "" {
		klog.FromContext(ctx).Info("Not reconciling Platforms, because they are cluster-scoped and --namespace "+
			"limits the operator to one namespace", "namespace", o.Namespace)
		return served, nil
	}
	platforms, err := platform.New(in, with, platform.Options{OwnNamespaces: o.OwnNamespaces})
	if err != nil {
		return Controllers{}, fmt.Errorf("creating the controller of Platform: %w", err)
	}
	served.All = append(served.All, platforms)
	return served, nil
}

// podConnector returns the connector for the servers of Databases, or nil. The addresses of these servers come from the
// kubelet, so --external-database-allowed-hosts does not limit them.
func podConnector(o Options) (database.Connector, error) {
	if o.DatabaseConnector != nil || !o.ConnectToDatabases {
		return o.DatabaseConnector, nil
	}
	return postgresql.NewConnector(postgresql.Options{
		APIServers: o.ExternalDatabases.APIServers, Workers: o.ExternalDatabases.Workers,
		Observe: o.ExternalDatabases.Observe,
	})
}

// GroupVersions are the API versions that must be installed in the cluster.
var GroupVersions = []schema.GroupVersion{cnatv1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion}

// Scheme returns the scheme with the types of all kinds, for Events about them.
func Scheme() *runtime.Scheme { return kindsscheme.Scheme }
