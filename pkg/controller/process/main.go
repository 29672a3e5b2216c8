package process

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
)

// Operator declares an operator to Main. All fields are required.
type Operator struct {
	// Name is the name of the Lease, and the value of the label app.kubernetes.io/managed-by of owned
	// objects. The reporting controller of Events is the first of Groups, a slash, and Name. Name must be
	// unique in a cluster.
	Name string
	// Groups are the API groups of the operator's kinds: see cluster.Options.
	Groups []string
	// Scheme has the types of the kinds.
	Scheme *runtime.Scheme
	// Kinds returns the controllers, and the caches that the operator has in addition to c. It must create the clients of
	// its kinds from config, and use c.Transform as the transform of their informers.
	Kinds func(config *rest.Config, c cluster.Cluster, r controller.Runtime) ([]*controller.Controller, []Caches, error)
}

// flags are the flags of every operator.
type flags struct {
	master, kubeconfig, leaseNamespace string
	address, metricsAddress            string
	metricsSecure                      bool
	workers                            int
}

// Main parses the flags of the command line and runs an operator until SIGTERM or SIGINT, inside or outside
// of a cluster. It exits with code 1 after an error.
func Main(o Operator) {
	var f flags
	klog.InitFlags(nil)
	flag.StringVar(&f.kubeconfig, "kubeconfig", "", "path of the kubeconfig file; "+
		"defaults to the files in $KUBECONFIG, or else the service account of the Pod, or else ~/.kube/config")
	flag.StringVar(&f.master, "master", "", "address of the API server; replaces the address in the kubeconfig")
	flag.StringVar(&f.leaseNamespace, "lease-namespace", "", "namespace of the Lease for leader election; defaults "+
		"to the namespace of the Pod, or else of the kubeconfig")
	flag.StringVar(&f.address, "bind-address", ":8080", "address that serves /healthz and /readyz; empty disables them")
	flag.StringVar(&f.metricsAddress, "metrics-bind-address", ":8443", "address that serves /metrics by HTTPS, to "+
		"users who may get this path; empty disables it")
	flag.BoolVar(&f.metricsSecure, "metrics-secure", true, "false serves /metrics at --bind-address by HTTP, to "+
		"everyone, and nothing at --metrics-bind-address")
	flag.IntVar(&f.workers, "workers", 10, "number of objects of each kind that are reconciled at the same time")
	flag.Parse()
	if err := o.run(klog.NewContext(Signaled(), klog.Background()), f); err != nil {
		klog.ErrorS(err, "Stopped")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	klog.Flush()
}

func (o Operator) run(ctx context.Context, f flags) error {
	if o.Name == "" || len(o.Groups) == 0 || o.Scheme == nil || o.Kinds == nil {
		return errors.New("the operator has a bug: Name, Groups, Scheme and Kinds of process.Operator are required")
	}
	config, namespace, _, err := LoadConfig(f.master, f.kubeconfig)
	if err != nil {
		return err
	}
	config = cluster.WithTimeout(config)
	config.UserAgent = o.Name
	config.QPS = -1 // API Priority and Fairness limits requests on the API server
	kube, err := kubernetes.NewForConfig(cluster.WithProtobuf(config))
	if err != nil {
		return fmt.Errorf("creating a client for built-in types: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for metadata: %w", err)
	}
	limit, identity := &budget.Budget{}, Identity()
	c := cluster.New(kube, meta, cluster.Options{ManagedBy: o.Name, Groups: o.Groups, Limit: limit})
	events := controller.NewEvents(kube.EventsV1(), o.Scheme, o.Groups[0]+"/"+o.Name, identity, clock.RealClock{})
	controllers, caches, err := o.Kinds(config, c, controller.Runtime{
		Events: events, Clock: clock.RealClock{}, Room: limit.Fits,
	})
	if err != nil {
		return err
	}
	return Run(ctx, Options{
		Instance: Instance{Controllers: controllers, Caches: append(caches, c), Events: events},
		Workers:  f.workers,
		Leases: []Lease{
			{Client: kube, Namespace: cmp.Or(f.leaseNamespace, namespace), Name: o.Name, Identity: identity},
		},
		BindAddress: f.address,
		Metrics:     SecureOrPlain(f.metricsSecure, f.metricsAddress, kube),
	})
}
