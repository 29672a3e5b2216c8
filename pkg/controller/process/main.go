package process

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
)

// Operator declares an operator to Main. All fields are required.
type Operator struct {
	// Name is the name of the Lease, the controller in Events, and the value of the label
	// app.kubernetes.io/managed-by of owned objects. It must be unique in a cluster.
	Name string
	// Groups are the API groups of the operator's kinds: see cluster.Options.
	Groups []string
	// Scheme has the types of the kinds.
	Scheme *runtime.Scheme
	// Kinds returns the controllers, and the caches that the operator has beside c. config is for the
	// clients of its own kinds.
	Kinds func(config *rest.Config, c cluster.Cluster, r controller.Runtime) ([]*controller.Controller, []Caches, error)
}

// flags are the flags of every operator.
type flags struct {
	kubeconfig, leaseNamespace, address string
	workers                             int
}

// Main runs an operator with the flags of the command line until SIGTERM, in a cluster or out of it. It
// exits with code 1 after an error.
func Main(o Operator) {
	var f flags
	klog.InitFlags(nil)
	flag.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file of the cluster; a Pod needs none")
	flag.StringVar(&f.leaseNamespace, "lease-namespace", o.Name, "namespace of the Lease, which the replica that works holds")
	flag.StringVar(&f.address, "bind-address", ":8080", "address of /healthz, /readyz and /metrics; empty means none")
	flag.IntVar(&f.workers, "workers", 10, "number of workers of each kind")
	flag.Parse()
	if err := o.run(klog.NewContext(Signaled(), klog.Background()), f); err != nil {
		klog.ErrorS(err, "Stopped")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	klog.Flush()
}

func (o Operator) run(ctx context.Context, f flags) error {
	if f.workers < 1 {
		return fmt.Errorf("--workers must be at least 1, not %d", f.workers)
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading --kubeconfig %q: %w", f.kubeconfig, err)
	}
	config = cluster.WithTimeout(config)
	config.UserAgent = o.Name
	config.QPS = -1 // the priority and fairness of the API server limits requests
	kube, err := kubernetes.NewForConfig(cluster.WithProtobuf(config))
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for metadata: %w", err)
	}
	limit, identity := &budget.Budget{}, Identity()
	c := cluster.New(kube, meta, cluster.Options{ManagedBy: o.Name, Groups: o.Groups, Limit: limit})
	events := controller.NewEvents(kube.EventsV1(), o.Scheme, o.Groups[0]+"/"+o.Name, identity, clock.RealClock{})
	controllers, caches, err := o.Kinds(config, c, controller.Runtime{Events: events, Clock: clock.RealClock{}, Room: limit.Fits})
	if err != nil {
		return err
	}
	return Run(ctx, Options{
		Controllers: controllers,
		Workers:     f.workers,
		Events:      events,
		Caches:      append(caches, c),
		Leases:      []Lease{{Client: kube, Namespace: f.leaseNamespace, Name: o.Name, Identity: identity}},
		BindAddress: f.address,
	})
}
