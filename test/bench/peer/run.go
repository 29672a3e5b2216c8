package peer

import (
	"context"
	"flag"
	"fmt"

	"go.uber.org/zap/zapcore"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// Options configures a peer.
type Options struct {
	Kubeconfig, PprofAddress string
	// Careful limits the caches to children that have the managed-by label, removes managed fields from the caches, and
	// sets the number of workers to Workers. If Careful is false, all options have their defaults.
	Careful bool
	Workers int
	// Verbose logs each reconcile.
	Verbose bool
}

// Run runs the peer until ctx ends.
func Run(ctx context.Context, o Options) error {
	level := flag.NewFlagSet("", flag.ContinueOnError)
	logging := zap.Options{TimeEncoder: zapcore.RFC3339NanoTimeEncoder}
	logging.BindFlags(level)
	if o.Verbose {
		if err := level.Set("zap-log-level", "2"); err != nil { // from level 2 on, the log is not sampled
			return err
		}
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.Install} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("creating a scheme: %w", err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", o.Kubeconfig, err)
	}
	config.QPS = -1 // the default of ctrl.GetConfig
	options := manager.Options{Scheme: scheme, PprofBindAddress: o.PprofAddress, Metrics: server.Options{BindAddress: "0"}}
	if o.Careful {
		options.Cache = carefulCache()
	}
	m, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("creating a manager: %w", err)
	}
	settings := controller.Options{}
	if o.Careful {
		settings.MaxConcurrentReconciles = o.Workers
	}
	err = ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.App{}).
		Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).Owns(&networkingv1.Ingress{}).
		WithOptions(settings).
		Complete(&Reconciler{Client: m.GetClient(), Scheme: scheme, Recorder: m.GetEventRecorder("peer")})
	if err != nil {
		return fmt.Errorf("creating a controller: %w", err)
	}
	return m.Start(ctx)
}

// carefulCache returns the options of a cache that has only the objects and fields that the reconciler
// reads.
func carefulCache() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{managedBy: "windlass"})}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: ours, &appsv1.Deployment{}: ours, &corev1.Service{}: ours, &networkingv1.Ingress{}: ours,
		},
	}
}
