package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/sharding/shards"
)

// options holds the values of the flags.
type options struct {
	kubeconfig string
	master     string
	kinds      operator.Options
	workers    int
	shards     int
	// planned are the flags that the operator shares with kubectl windlass plan.
	planned operator.Flags

	leaderElect           bool
	electionNamespace     string
	clusterLeaseNamespace string

	bindAddress    string // or noAddress
	metricsAddress string // or noAddress
	metricsSecure  bool
	pprof          bool

	webhookAddress   string
	webhookURL       string
	webhookNamespace string
	webhookService   string

	version bool

	logging *logsapi.LoggingConfiguration
}

// noAddress is the value of --bind-address and --metrics-bind-address for a process without these endpoints.
const noAddress = "0"

// parse parses the flags. The text of each error is one line.
func parse(args []string) (*options, error) {
	o := &options{logging: logsapi.NewLoggingConfiguration()}
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.SortFlags = false
	flags.Usage = func() {
		fmt.Fprintf(os.Stdout, "controller runs the Windlass operator.\n\nFlags:\n%s", flags.FlagUsages())
	}
	o.addFlags(flags)
	if err := flags.Parse(doubleDashes(flags, args)); err != nil {
		return nil, err
	}
	if extra := flags.Args(); len(extra) > 0 {
		return nil, fmt.Errorf("unexpected argument %q", extra[0])
	}
	return o, o.validate()
}

// doubleDashes replaces the single dash of each flag with a long name, such as -kubeconfig, by two dashes. Package flag
// of the standard library accepts both forms, and pflag only two dashes.
func doubleDashes(flags *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && len(name) > 1 && flags.Lookup(name) != nil {
			args[i] = "-" + arg
		}
	}
	return args
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of the kubeconfig file. Defaults to the files in "+
		"$KUBECONFIG, or else to the service account of the Pod or, out of cluster, to ~/.kube/config.")
	flags.StringVar(&o.master, "master", "", "Address of the API server. It replaces the address in the kubeconfig.")
	flags.StringVar(&o.kinds.Namespace, "namespace", "", "Namespace to which the operator is limited. The operator then "+
		"needs a Role instead of a ClusterRole, and does not reconcile Platforms. Empty means all namespaces.")
	flags.IntVar(&o.workers, "workers", 10, "Number of objects of each kind that are reconciled at the same time. "+
		"With --shards, it applies to each shard.")
	flags.IntVar(&o.shards, "shards", 1, "Number of shards into which the namespaces are divided, from 1 to 256. With "+
		"more than 1, each replica works on some of the shards. With 1, one replica works on all namespaces, and the other "+
		"replicas stand by. The number must be the same for all replicas, except during a rollout. See docs/scaling.md.")
	o.planned.AddFlags(flags)
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Reconcile only while this process holds two Leases named "+
		"windlass-controller: the Lease of the installation, for which the replicas of the installation compete, and the "+
		"Lease of the cluster, for which installations compete. With --shards, the leader holds these Leases, and each "+
		"replica reconciles the shards whose Leases the replica holds. False disables all Leases.")
	flags.StringVar(&o.electionNamespace, "leader-election-namespace", "",
		"Namespace of the Lease of the installation. Defaults to --namespace, or else to the namespace of the Pod "+
			"or, out of cluster, of the kubeconfig.")
	flags.StringVar(&o.clusterLeaseNamespace, "cluster-lease-namespace", metav1.NamespaceSystem,
		"Namespace of the Lease of the cluster, which only one of several installations holds. It must be the same "+
			"for all installations. It has no effect with --namespace.")
	flags.StringVar(&o.bindAddress, "bind-address", ":8080", "Address at which the operator serves /healthz and "+
		"/readyz by HTTP. 0 disables these endpoints.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		"Address at which the operator serves /metrics by HTTPS. A request needs the bearer token of a user who may "+
			"get the non-resource URL /metrics. 0 disables this endpoint.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true, "Serve /metrics at --metrics-bind-address. False serves "+
		"it at --bind-address instead, by HTTP and to everyone who reaches that address, for example out of cluster.")
	flags.BoolVar(&o.kinds.ConnectToDatabases, "connect-to-databases", true,
		"Log in to the PostgreSQL server of each Database, at the address of its Pod, to read which changes of the "+
			"settings the server has applied, which changes wait for a restart, and which changes it rejects. False assumes "+
			"that each change is applied at once, and disables the rotation of logins of Databases.")
	flags.BoolVar(&o.kinds.ObjectNameMetrics, "metrics-object-names", false,
		"Also serve windlass_database_volume_info, whose labels are the namespace and the name of the "+
			"PersistentVolumeClaim of each Database.")
	flags.BoolVar(&o.pprof, "pprof", false, "Also serve /debug/pprof wherever /metrics is served.")
	flags.StringVar(&o.webhookAddress, "webhook-bind-address", ":9443", "Address at which the operator serves the "+
		"conversion webhook.")
	flags.StringVar(&o.webhookURL, "webhook-url", "", "HTTPS URL at which the API server reaches the conversion "+
		"webhook of an operator that runs out of cluster. Without this URL, such an operator serves only version v1 of At.")
	flags.StringVar(&o.webhookNamespace, "webhook-namespace", "", "Namespace of the Service and the certificate of "+
		"the conversion webhook. Defaults to the namespace of the Pod or, out of cluster, of the kubeconfig.")
	flags.StringVar(&o.webhookService, "webhook-service", "windlass-webhook",
		"Name of the Service through which the API server reaches the conversion webhook in a cluster.")
	logsapi.AddFlags(o.logging, flags)
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
}

// highestVerbosity is the highest log level at which client-go does not log the bodies of requests, which may
// contain Secrets.
const highestVerbosity = 7

// mayShard reports whether replicas can share the namespaces.
func (o *options) mayShard() bool { return o.kinds.Namespace == "" && o.leaderElect }

// validateIn checks the flags that depend on the namespace of the operator.
func (o *options) validateIn(namespace string) error {
	if o.shards > 1 && cmp.Or(o.electionNamespace, namespace) == o.clusterLeaseNamespace {
		return fmt.Errorf("--shards must be 1, not %d, in namespace %s, which has the Lease of the cluster: install the "+
			"operator in a namespace of its own", o.shards, o.clusterLeaseNamespace)
	}
	return nil
}

func (o *options) validate() error {
	verbosity := uint32(o.logging.Verbosity)
	for _, module := range o.logging.VModule {
		verbosity = max(verbosity, uint32(module.Verbosity))
	}
	if verbosity > highestVerbosity {
		return fmt.Errorf("--v and the levels of --vmodule must be at most %d, not %d, because higher levels log the "+
			"content of Secrets",
			highestVerbosity, verbosity)
	}
	if o.workers < 1 {
		return fmt.Errorf("--workers must be at least 1, not %d", o.workers)
	}
	if o.shards < 1 || o.shards > shards.Max {
		return fmt.Errorf("--shards must be from 1 to %d, not %d", shards.Max, o.shards)
	}
	if o.shards > 1 && !o.mayShard() {
		return fmt.Errorf("--shards must be 1, not %d, with --namespace or --leader-elect=false", o.shards)
	}
	if o.clusterLeaseNamespace == "" {
		return fmt.Errorf("--cluster-lease-namespace must not be empty")
	}
	for flag, address := range map[string]string{
		"--bind-address": o.bindAddress, "--metrics-bind-address": o.metricsAddress,
		"--webhook-bind-address": o.webhookAddress,
	} {
		if flag != "--webhook-bind-address" && address == noAddress {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s must have the form HOST:PORT or :PORT, not %q", flag, address)
		}
	}
	if err := o.planned.ApplyTo(&o.kinds); err != nil {
		return err
	}
	if o.webhookURL == "" {
		return nil
	}
	if u, err := url.Parse(o.webhookURL); err != nil || u.Scheme != "https" || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--webhook-url must have the form https://HOST:PORT/convert, not %q", o.webhookURL)
	}
	return nil
}
