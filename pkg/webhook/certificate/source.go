package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Limits of writes, in case another client keeps reverting them. A renewal of the CA and the certificate takes
// fewer than writesAtOnce writes.
const (
	writesPerSecond = 1
	writesAtOnce    = 10
)

// Backoff after a failed reconcile.
const (
	backoffBase  = time.Second
	backoffLimit = 5 * time.Minute
)

// Source reconciles the serving certificate, its CA and the CustomResourceDefinition, and provides the
// certificate to the webhook.
type Source struct {
	options Options
	kube    kubernetes.Interface
	crd     crdclientset.Interface

	kubeInformers informers.SharedInformerFactory
	crdInformers  crdinformers.SharedInformerFactory
	secrets       corelisters.SecretLister
	crds          crdlisters.CustomResourceDefinitionLister

	writes  flowcontrol.PassiveRateLimiter
	serving atomic.Pointer[tls.Certificate]

	leads     atomic.Bool
	led       chan struct{}          // has an item once leads is true, until Run receives the item
	elsewhere atomic.Pointer[string] // the host of another installation that serves the webhook, or nil
}

// New returns a Source that has no certificate until it runs. It fails if the options are invalid.
func New(kube kubernetes.Interface, crd crdclientset.Interface, options Options) (*Source, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	s := &Source{options: options, kube: kube, crd: crd, led: make(chan struct{}, 1)}
	s.writes = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(writesPerSecond, writesAtOnce, options.Clock)
	s.kubeInformers = informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithNamespace(options.Namespace),
		// The cache does not hold a Secret of this name that lacks the label of Windlass.
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, options.SecretName).String()
			o.LabelSelector = managedByLabel + "=" + managedBy
		}))
	s.crdInformers = crdinformers.NewSharedInformerFactoryWithOptions(crd, 0,
		crdinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, options.CRDName).String()
		}),
		crdinformers.WithTransform(dropSchema))
	s.secrets = s.kubeInformers.Core().V1().Secrets().Lister()
	s.crds = s.crdInformers.Apiextensions().V1().CustomResourceDefinitions().Lister()
	return s, nil
}

// dropSchema removes the large fields of a CustomResourceDefinition before it is cached.
func dropSchema(obj any) (any, error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return obj, nil
	}
	lean := *crd
	lean.ManagedFields, lean.Annotations, lean.Spec.Versions = nil, nil, nil
	return &lean, nil
}

// GetCertificate returns the serving certificate, for a tls.Config. It fails until there is a certificate
// that the API server trusts.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.serving.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errors.New("the API server does not trust a serving certificate yet")
}

// Ready returns an error while there is no valid serving certificate. While another installation serves the
// webhook, the error wraps ErrForeign.
func (s *Source) Ready() error {
	if err := s.elsewhereError(); err != nil {
		return err
	}
	certificate, err := s.GetCertificate(nil)
	if err != nil {
		return err
	}
	if end := certificate.Leaf.NotAfter; s.options.Clock.Now().After(end) {
		return fmt.Errorf("the serving certificate expired at %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// Run reconciles until ctx ends. It must be called only once.
func (s *Source) Run(ctx context.Context) error {
	defer s.crdInformers.Shutdown()
	defer s.kubeInformers.Shutdown()
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](backoffBase, backoffLimit),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: s.options.Clock})
	defer queue.ShutDown()
	if err := s.watch(queue); err != nil {
		return err
	}
	s.kubeInformers.StartWithContext(ctx)
	s.crdInformers.StartWithContext(ctx)
	if s.kubeInformers.WaitForCacheSyncWithContext(ctx).AsError() != nil ||
		s.crdInformers.WaitForCacheSyncWithContext(ctx).AsError() != nil {
		return nil // ctx has ended
	}
	queue.Add(s.options.SecretName)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		select {
		case <-s.led:
			queue.Add(s.options.SecretName)
		case <-ctx.Done():
		}
	})
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for s.work(ctx, queue) {
	}
	return nil
}

// watch queues a reconcile for every change of the Secret or the CustomResourceDefinition.
func (s *Source) watch(queue workqueue.TypedInterface[string]) error {
	add := func(any) { queue.Add(s.options.SecretName) }
	for _, informer := range []cache.SharedIndexInformer{
		s.kubeInformers.Core().V1().Secrets().Informer(),
		s.crdInformers.Apiextensions().V1().CustomResourceDefinitions().Informer(),
	} {
		handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("adding an event handler for the webhook certificate: %w", err)
		}
	}
	return nil
}

// work runs one reconcile. It returns false after the queue was shut down.
func (s *Source) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	err := s.sync(ctx)
	switch {
	case err == nil:
		queue.Forget(key)
		queue.AddAfter(key, recheck)
		return true
	case ctx.Err() != nil:
		return true
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		klog.FromContext(ctx).V(2).Info("Another replica has written first; retrying", "err", err)
	default:
		klog.FromContext(ctx).Error(err, "Reconciling the webhook certificate failed")
	}
	queue.AddRateLimited(key)
	return true
}
