package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/kinds/at"
	"windlass.dev/windlass/pkg/kinds/database"
	"windlass.dev/windlass/pkg/postgresql"
)

// options holds the values of the flags.
type options struct {
	kubeconfig string
	kinds      operator.Options
	workers    int
	qps        float32
	burst      int
	// allowedHosts is the unparsed value of --external-database-allowed-hosts.
	allowedHosts []string

	leaderElect           bool
	electionNamespace     string
	clusterLeaseNamespace string

	bindAddress string // or noAddress
	pprof       bool

	webhookAddress   string
	webhookURL       string
	webhookNamespace string
	webhookService   string

	version bool

	logging *logsapi.LoggingConfiguration
}

// noAddress is the value of --bind-address for a process without endpoints.
const noAddress = "0"

// parse parses the flags. Each of its errors is one sentence.
func parse(args []string) (*options, error) {
	o := &options{logging: logsapi.NewLoggingConfiguration()}
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.SortFlags = false
	flags.Usage = func() {
		fmt.Fprintf(os.Stdout, "controller runs the Windlass operator.\n\nFlags:\n%s", flags.FlagUsages())
	}
	o.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if extra := flags.Args(); len(extra) > 0 {
		return nil, fmt.Errorf("unexpected argument %q", extra[0])
	}
	return o, o.validate()
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "Kubeconfig file of the cluster. Defaults to $KUBECONFIG, or to the account of the Pod that this runs in.")
	flags.StringVar(&o.kinds.Namespace, "namespace", "", "The one namespace to work in, for which a Role is enough. Empty means all.")
	flags.IntVar(&o.workers, "workers", 10, "Objects of each kind that are worked on at once.")
	flags.Float32Var(&o.qps, "kube-api-qps", -1, "Requests a second to the API server. Negative means as many as its priority and fairness lets through.")
	flags.IntVar(&o.burst, "kube-api-burst", 100, "Requests beyond --kube-api-qps for a moment. Without effect if that is negative.")
	flags.StringVar(&o.kinds.AtImage, "at-image", at.DefaultImage, "Image of an At that names none.")
	flags.StringVar(&o.kinds.PostgreSQLImage, "postgresql-image", database.DefaultImage, "Image of a Database that names none, without the tag, which is the version: for example registry.example.com/library/postgres. Another one restarts these Databases.")
	flags.StringSliceVar(&o.allowedHosts, "external-database-allowed-hosts", nil, "Where the servers of ExternalDatabases may be: names, in which * stands for any characters, addresses, and networks such as 10.0.0.0/8, in which the address that a name resolves to must be. Empty means anywhere but loopback, link-local and other special addresses, and the API server.")
	flags.StringSliceVar(&o.kinds.ExternalDatabases.UntrustedExtensions, "external-database-untrusted-extensions", nil, "Extensions of ExternalDatabases that the administrator of the server makes where it does not trust owners with them. Their scripts run with all the administrator's rights in a schema that the owner may write to.")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Work only while holding the Leases named windlass-controller: the installation's, so that several replicas may run, and the cluster's, so that several installations may. False disables both.")
	flags.StringVar(&o.electionNamespace, "leader-election-namespace", "", "Namespace of the installation's Lease. Defaults to --namespace, else to the Pod's, or out of cluster to the kubeconfig's.")
	flags.StringVar(&o.clusterLeaseNamespace, "cluster-lease-namespace", metav1.NamespaceSystem, "Namespace of the cluster's Lease, which only one of several installations holds. It must be the same for all. Without effect with --namespace.")
	flags.StringVar(&o.bindAddress, "bind-address", ":8080", "Address for /healthz, /readyz and /metrics. 0 means none.")
	flags.BoolVar(&o.pprof, "pprof", false, "Serve /debug/pprof on --bind-address too.")
	flags.StringVar(&o.webhookAddress, "webhook-bind-address", ":9443", "Address for the conversion webhook.")
	flags.StringVar(&o.webhookURL, "webhook-url", "", "Out of cluster: the https URL at which the API server reaches the conversion webhook. Without it v1 of At works alone.")
	flags.StringVar(&o.webhookNamespace, "webhook-namespace", "", "Namespace of the webhook's Service and certificate. Defaults to the Pod's, or out of cluster to the kubeconfig's.")
	flags.StringVar(&o.webhookService, "webhook-service", "windlass-webhook", "Service by which the API server reaches the conversion webhook in a cluster.")
	logsapi.AddFlags(o.logging, flags)
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
}

// highestVerbosity is the highest log level at which client-go does not log the bodies of requests, which may
// contain Secrets.
const highestVerbosity = 7

// repository matches the name of an image without tag and digest: its last part has no colon.
var repository = regexp.MustCompile(`^([^\s@/]+/)*[^\s@/:]+$`)

func (o *options) validate() error {
	verbosity := uint32(o.logging.Verbosity)
	for _, module := range o.logging.VModule {
		verbosity = max(verbosity, uint32(module.Verbosity))
	}
	if verbosity > highestVerbosity {
		return fmt.Errorf("--v and --vmodule must be at most %d: from %d on, the content of Secrets would be in the log", highestVerbosity, highestVerbosity+1)
	}
	if o.workers < 1 {
		return fmt.Errorf("--workers must be at least 1, not %d", o.workers)
	}
	if o.qps == 0 {
		return fmt.Errorf("--kube-api-qps must not be 0")
	}
	if o.qps > 0 && o.burst < 1 {
		return fmt.Errorf("--kube-api-burst must be at least 1, not %d", o.burst)
	}
	if o.kinds.AtImage == "" {
		return fmt.Errorf("--at-image must not be empty")
	}
	if o.clusterLeaseNamespace == "" {
		return fmt.Errorf("--cluster-lease-namespace must not be empty")
	}
	if !repository.MatchString(o.kinds.PostgreSQLImage) {
		return fmt.Errorf("--postgresql-image must be an image without tag and digest, such as registry.example.com/library/postgres, not %q", o.kinds.PostgreSQLImage)
	}
	for flag, address := range map[string]string{"--bind-address": o.bindAddress, "--webhook-bind-address": o.webhookAddress} {
		if flag == "--bind-address" && address == noAddress {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s must be HOST:PORT or :PORT, not %q", flag, address)
		}
	}
	var err error
	if o.kinds.ExternalDatabases.Allowed, err = postgresql.ParseAllowedHosts(o.allowedHosts); err != nil {
		return fmt.Errorf("--external-database-allowed-hosts: %w", err)
	}
	if o.webhookURL == "" {
		return nil
	}
	if u, err := url.Parse(o.webhookURL); err != nil || u.Scheme != "https" || u.Host == "" || !strings.HasPrefix(u.Path, "/") {
		return fmt.Errorf("--webhook-url must be like https://HOST:PORT/convert, not %q", o.webhookURL)
	}
	return nil
}
