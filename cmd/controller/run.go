package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/webhook"
	"windlass.dev/windlass/pkg/webhook/certificate"
)

// reconcilesTimeout is how long reconciles in flight may take to end. webhookDelay is how long the
// webhook serves after the signal, until the Service has removed the Pod.
const (
	reconcilesTimeout = 20 * time.Second
	webhookDelay      = 5 * time.Second
)

// reportingController is the operator's name in Events.
const reportingController = "windlass.dev/controller"

// run runs the process until ctx ends. Caches and webhook start before the process leads, so that a
// standby can take over. At the end they stop in this order: reconciles, events, lease, webhook, and
// last the endpoints.
func run(ctx context.Context, o *options) error {
	klog.FromContext(ctx).Info("Starting", "version", version.Get().GitVersion)
	c, err := newClients(o)
	if err != nil {
		return err
	}
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()

	identity := identify()
	p := &process{ctx: ctx, workers: o.workers, failed: make(chan error, 3)}
	p.events = controller.NewEvents(c.Events.EventsV1(), operator.Scheme(), reportingController, identity, clock.RealClock{})
	caches := operator.NewCaches(c.Clients, o.kinds.Namespace)
	kinds := o.kinds
	kinds.OwnNamespaces = ownNamespaces(c, o)
	kinds.ExternalDatabases.Workers = o.workers
	if kinds.ExternalDatabases.APIServers, err = apiServers(ctx, c.config, os.Getenv); err != nil {
		return err
	}
	served, err := operator.Kinds(ctx, caches, p.events, kinds)
	if err != nil {
		return err
	}
	p.controllers = served.All
	converter, err := newWebhook(ctx, c, o)
	if err != nil {
		return err
	}
	var elections []*election
	if o.leaderElect {
		elections = newElections(c.Clients, o, c.namespace, identity)
	}
	warm := &warmUp{controllers: served.Unconverted, patience: cachesPatience}
	var stopped <-chan struct{}
	if o.bindAddress != "0" {
		if stopped, err = serve(lasting, o.bindAddress, endpoints(watched(elections), readiness(warm, conversions(converter, o)), o.pprof), p.failed); err != nil {
			return err
		}
	}
	if converter != nil {
		p.convert(converter.Run)
	}
	checkCRDs(ctx, c)
	caches.Start(lasting.Done())
	err = p.live(func(leading context.Context) error {
		if !warm.wait(leading) {
			return nil
		}
		return p.lead(leading, elections, takeOver(converter, o))
	})
	if err != nil {
		return err // at once: another process may lead by now
	}
	end()
	if stopped != nil {
		<-stopped
	}
	return nil
}

// ownNamespaces are where the Lease and the webhook's certificate are. Out of cluster the
// namespace default says nothing: it is that of a kubeconfig that names none.
func ownNamespaces(c *clients, o *options) []string {
	own := []string{cmp.Or(o.electionNamespace, c.namespace), cmp.Or(o.webhookNamespace, c.namespace)}
	return slices.DeleteFunc(own, func(name string) bool { return !c.inCluster && name == metav1.NamespaceDefault })
}

// process is the part of run that begins and ends in order.
type process struct {
	ctx         context.Context // ends with the signal
	workers     int
	controllers []*controller.Controller
	events      *controller.Events
	failed      chan error // a server that ended before its time
	working     sync.WaitGroup
	converting  sync.WaitGroup
}

// live runs elect until ctx ends, and ends it only when the work is done. elect
// calls work when it is this process's turn. A process that may not work any more,
// or cannot, does not wait for anything.
func (p *process) live(elect func(context.Context) error) error {
	logger := klog.FromContext(p.ctx)
	leading, release := context.WithCancelCause(context.WithoutCancel(p.ctx))
	defer release(errAbandoned)
	writing, flush := context.WithCancel(context.WithoutCancel(p.ctx))
	defer flush()
	var written sync.WaitGroup
	written.Go(func() { p.events.Run(writing) })

	lost := make(chan error, 1)
	go func() { lost <- elect(leading) }()
	select {
	case err := <-p.failed:
		return err
	case err := <-lost:
		return err
	case <-p.ctx.Done():
	}
	logger.Info("Stopping: finishing what was begun")
	select {
	case err := <-lost:
		return cmp.Or(err, errLeaseLost)
	case <-done(&p.working):
	case <-time.After(reconcilesTimeout):
		return fmt.Errorf("reconciles in flight did not end within %v; the lease is left to expire", reconcilesTimeout)
	}
	flush()
	written.Wait()
	release(nil)
	err := <-lost
	p.converting.Wait()
	logger.Info("Stopped in order")
	return err
}

// lead works while this process holds the leases, or at once if there are none. It calls takeOver
// before.
func (p *process) lead(ctx context.Context, elections []*election, takeOver func()) error {
	work := func() {
		takeOver()
		p.work()
	}
	if len(elections) > 0 {
		return elect(ctx, elections, work)
	}
	work()
	<-ctx.Done()
	return nil
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

// work runs the workers of all kinds until the signal comes.
func (p *process) work() {
	for _, c := range p.controllers {
		p.working.Go(func() {
			if err := c.Run(p.ctx, p.workers); err != nil && p.ctx.Err() == nil {
				klog.FromContext(p.ctx).Error(err, "Controller ended", "controller", c.Name())
			}
		})
	}
}

// convert runs the conversion webhook, which begins to end with the signal.
func (p *process) convert(serve func(context.Context) error) {
	p.converting.Go(func() {
		if err := serve(p.ctx); err != nil {
			p.failed <- fmt.Errorf("conversion webhook: %w", err)
		}
	})
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

// done is closed when group is.
func done(group *sync.WaitGroup) <-chan struct{} {
	closed := make(chan struct{})
	go func() { group.Wait(); close(closed) }()
	return closed
}

// identify names this process among those of the operator.
func identify() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + string(uuid.NewUUID())
}
