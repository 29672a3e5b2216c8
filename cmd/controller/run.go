package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/process"
	"windlass.dev/windlass/pkg/webhook"
	"windlass.dev/windlass/pkg/webhook/certificate"
)

// leaseName is the name of all Leases of the operator.
const leaseName = "windlass-controller"

// webhookDelay is how long the webhook serves after the signal, until the Service has removed the Pod.
const webhookDelay = 5 * time.Second

// reportingController is the operator's name in Events.
const reportingController = "windlass.dev/controller"

// run runs the process until ctx ends.
func run(ctx context.Context, o *options) error {
	klog.FromContext(ctx).Info("Starting", "version", version.Get().GitVersion)
	c, err := newClients(o)
	if err != nil {
		return err
	}
	identity := process.Identity()
	events := controller.NewEvents(c.Events.EventsV1(), operator.Scheme(), reportingController, identity, clock.RealClock{})
	caches := operator.NewCaches(c.Clients, o.kinds.Namespace)
	kinds := o.kinds
	kinds.OwnNamespaces = ownNamespaces(c, o)
	kinds.ExternalDatabases.Workers = o.workers
	if kinds.ExternalDatabases.APIServers, err = apiServers(ctx, c.config, os.Getenv); err != nil {
		return err
	}
	served, err := operator.Kinds(ctx, caches, events, kinds)
	if err != nil {
		return err
	}
	converter, err := newWebhook(ctx, c, o)
	if err != nil {
		return err
	}
	address := o.bindAddress
	if address == noAddress {
		address = ""
	}
	go checkCRDs(ctx, c)
	return process.Run(ctx, process.Options{
		Controllers: served.All,
		Warm:        served.Unconverted,
		Workers:     o.workers,
		Events:      events,
		Caches:      []process.Caches{caches},
		Leases:      leases(c.Lease, o, c.namespace, identity),
		BindAddress: address,
		Pprof:       o.pprof,
		Ready:       conversions(converter, o),
		Serve:       serveWebhook(converter),
		Lead:        takeOver(converter, o),
	})
}

// leases returns the Leases that this process must hold to work, in the order in which it acquires
// them.
//
// An operator of the whole cluster needs two Leases. The first is in the namespace of its Pods:
// earlier versions use it too, so that an upgrade never has two leaders. The second is in
// --cluster-lease-namespace: it keeps two installations from working in one cluster.
//
// An operator with --namespace needs one Lease, in the namespace that it works in. Operators of
// different namespaces work side by side. --leader-election-namespace moves the first Lease.
func leases(client kubernetes.Interface, o *options, namespace, identity string) []process.Lease {
	if !o.leaderElect {
		return nil
	}
	lease := func(namespace, identity string) process.Lease {
		return process.Lease{Client: client, Namespace: namespace, Name: leaseName, Identity: identity}
	}
	if o.kinds.Namespace != "" {
		return []process.Lease{lease(cmp.Or(o.electionNamespace, o.kinds.Namespace), identity)}
	}
	own := cmp.Or(o.electionNamespace, namespace)
	if own == o.clusterLeaseNamespace {
		return []process.Lease{lease(own, identity)} // it is the same Lease
	}
	// The namespace tells those who wait which installation they wait for.
	return []process.Lease{lease(own, identity), lease(o.clusterLeaseNamespace, own+"/"+identity)}
}

// ownNamespaces are where the Lease and the webhook's certificate are. Out of cluster the
// namespace default says nothing: it is that of a kubeconfig that names none.
func ownNamespaces(c *clients, o *options) []string {
	own := []string{cmp.Or(o.electionNamespace, c.namespace), cmp.Or(o.webhookNamespace, c.namespace)}
	return slices.DeleteFunc(own, func(name string) bool { return !c.inCluster && name == metav1.NamespaceDefault })
}

// takeOver returns what lets the webhook take the conversion from another installation. Of all
// installations in a cluster, only the one that works in all namespaces and holds the cluster's
// Lease may.
func takeOver(converter *webhook.Server, o *options) func() {
	if converter == nil || o.kinds.Namespace != "" {
		return func() {}
	}
	return converter.Lead
}

// serveWebhook returns what runs the conversion webhook, or nil.
func serveWebhook(converter *webhook.Server) func(context.Context) error {
	if converter == nil {
		return nil
	}
	return func(ctx context.Context) error {
		if err := converter.Run(ctx); err != nil {
			return fmt.Errorf("conversion webhook: %w", err)
		}
		return nil
	}
}

// newWebhook returns the conversion webhook, which every replica serves, or nil. Out
// of cluster the API server can reach it only at a URL that the user knows.
func newWebhook(ctx context.Context, c *clients, o *options) (*webhook.Server, error) {
	if !c.inCluster && o.webhookURL == "" {
		klog.FromContext(ctx).Info("No conversion webhook: out of cluster it needs --webhook-url. Only version v1 of At works; requests for v1alpha1 fail.")
		return nil, nil
	}
	opts := webhook.Options{
		Address: o.webhookAddress,
		Certificate: certificate.Options{
			Namespace:   cmp.Or(o.webhookNamespace, c.namespace),
			ServiceName: o.webhookService,
			URL:         o.webhookURL,
		},
	}
	if c.inCluster {
		opts.ShutdownDelay = webhookDelay
	}
	server, err := webhook.New(c.Kube, c.CRDs, opts)
	if err != nil {
		return nil, fmt.Errorf("making the conversion webhook: %w", err)
	}
	return server, nil
}

// conversions tells whether this process does its part of the conversions. That of an operator
// that is limited to a namespace is none where another installation converts.
func conversions(converter *webhook.Server, o *options) func() error {
	return func() error {
		if converter == nil {
			return nil
		}
		err := converter.Ready()
		if o.kinds.Namespace != "" && errors.Is(err, certificate.ErrForeign) {
			return nil
		}
		return err
	}
}

// checkCRDs says what to do if the kinds are not installed. The informers try
// until they are.
func checkCRDs(ctx context.Context, c *clients) {
	for _, gv := range operator.GroupVersions {
		_, err := c.Windlass.Discovery().ServerResourcesForGroupVersion(gv.String())
		if apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Info("The CRDs are not installed; waiting for them. Install them with: kubectl apply -f artifacts/crds", "groupVersion", gv)
		}
	}
}
