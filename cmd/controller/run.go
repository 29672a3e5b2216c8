package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller/process"
	"windlass.dev/windlass/pkg/sharding/sharded"
	"windlass.dev/windlass/pkg/webhook"
	"windlass.dev/windlass/pkg/webhook/certificate"
)

// leaseName is the name of the Leases for leader election.
const leaseName = "windlass-controller"

// webhookDelay is how long the webhook serves after SIGTERM, so that the Service stops sending requests first.
const webhookDelay = 5 * time.Second

// reportingController is the operator's name in Events.
const reportingController = "windlass.dev/controller"

// run runs the process until ctx ends.
func run(ctx context.Context, o *options) error {
	identity := process.Identity()
	klog.FromContext(ctx).Info("Starting", "version", version.Get().GitVersion, "identity", identity)
	fence := &process.Fence{}
	c, err := newClients(o, fence)
	if err != nil {
		return err
	}
	if err := o.validateIn(c.namespace); err != nil {
		return err
	}
	kinds := o.kinds
	kinds.OwnNamespaces = ownNamespaces(c, o)
	kinds.ExternalDatabases.Workers = o.workers
	if kinds.ExternalDatabases.APIServers, err = operator.APIServers(ctx, c.config, os.Getenv); err != nil {
		return err
	}
	kinds.ExternalDatabases.Own = operator.OwnAddresses(ctx)
	instances := instances{clients: c, packers: &packed.Packers{}, identity: identity, kinds: kinds}
	var whole process.Instance
	if o.shards == 1 {
		if whole, err = instances.of(ctx, sharded.Filter{}); err != nil {
			return err
		}
	}
	converter := newWebhook(ctx, c, o)
	go checkCRDs(ctx, c)
	options := process.Options{
		Instance:    whole,
		Workers:     o.workers,
		Leases:      leases(c.Serving, o, c.namespace, identity),
		Sharding:    shardingOf(o, instances),
		Fence:       fence,
		BindAddress: addressOf(o.bindAddress),
		Metrics:     process.SecureOrPlain(o.metricsSecure, addressOf(o.metricsAddress), c.Serving),
	}
	options.Metrics.Pprof = o.pprof
	if converter != nil {
		addWebhook(&options, converter, o)
	}
	return process.Run(ctx, options)
}

// addWebhook makes the process serve the conversion webhook. The certificate of the metrics is the certificate of the
// webhook, so that scrapers can verify it with the CA in the webhook's Secret.
//
// Only an operator of all namespaces, which holds the cluster's Lease, takes over the webhook from another
// installation. An operator with --namespace is also ready while another installation serves the webhook.
func addWebhook(p *process.Options, converter *webhook.Server, o *options) {
	p.Metrics.Certificate, p.Metrics.Update = converter.GetCertificate, converter.UpdateMetrics
	p.Serve, p.Ready = converter.Run, converter.Ready
	if o.kinds.Namespace == "" {
		p.Lead = converter.Lead
		return
	}
	p.Ready = func() error {
		err := converter.Ready()
		if errors.Is(err, certificate.ErrForeign) {
			return nil
		}
		return err
	}
}

// addressOf returns the address in the value of a flag, or an empty string for noAddress.
func addressOf(value string) string {
	if value == noAddress {
		return ""
	}
	return value
}

// leases returns the Leases that this process must hold to reconcile, in the order in which it acquires them.
//
// An operator of the whole cluster needs two Leases. The first Lease is in the namespace of its Pods: only one replica
// of the installation can hold this Lease. The second Lease is in --cluster-lease-namespace: only one installation at a
// time can hold this Lease.
//
// An operator with --namespace needs one Lease, in the namespace that it works in. Operators of different namespaces
// work side by side. --leader-election-namespace moves the first or only Lease.
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
		return []process.Lease{lease(own, identity)} // one Lease for both purposes
	}
	// The namespace in the identity tells a waiting installation which other installation holds the Lease.
	return []process.Lease{lease(own, identity), lease(o.clusterLeaseNamespace, own+"/"+identity)}
}

// ownNamespaces returns the namespaces of the installation's Lease and of the webhook's certificate. Out of cluster it
// omits the namespace default, which a kubeconfig without a namespace implies.
func ownNamespaces(c *clients, o *options) []string {
	own := []string{cmp.Or(o.electionNamespace, c.namespace), cmp.Or(o.webhookNamespace, c.namespace)}
	return slices.DeleteFunc(own, func(name string) bool { return !c.inCluster && name == metav1.NamespaceDefault })
}

// newWebhook returns the conversion webhook, which every replica serves. It returns nil out of cluster without
// --webhook-url, since the API server has no address to call.
func newWebhook(ctx context.Context, c *clients, o *options) *webhook.Server {
	if !c.inCluster && o.webhookURL == "" {
		klog.FromContext(ctx).Info("Not serving the conversion webhook, because --webhook-url is not set. Only " +
			"version v1 of At works; requests for v1alpha1 fail.")
		return nil
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
	return webhook.New(c.Serving, c.CRDs, opts)
}

// checkCRDs logs how to install the CRDs if they are missing. The informers retry until the CRDs are installed.
func checkCRDs(ctx context.Context, c *clients) {
	for _, gv := range operator.GroupVersions {
		_, err := c.Windlass.Discovery().ServerResourcesForGroupVersion(gv.String())
		if apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Info("Waiting for CustomResourceDefinitions that are not installed. To install "+
				"them, run: kubectl apply -f artifacts/crds", "groupVersion", gv)
		}
	}
}
