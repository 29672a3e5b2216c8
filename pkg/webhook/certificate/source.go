package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	crdclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/cnat"
)

const (
	// Path is the path at which the webhook serves.
	Path = "/convert"
	// SecretName is the name of the Secret with the certificate.
	SecretName = "windlass-webhook-certificate"
	// CRDName is the name of the CustomResourceDefinition whose objects the webhook converts.
	CRDName = "ats." + cnat.GroupName
)

const (
	// commonName is the common name of serving certificates.
	commonName = "windlass-webhook"
	// overlap is how long the API servers may take to read a new CA.
	overlap = time.Hour
)

// recheck is the time between two reconciles without an event. It is much shorter than the lifetime of a certificate,
// because somebody may set the clock.
const recheck = time.Hour

// writesAtOnce is the number of writes that may follow each other at once. Further writes are limited to one per
// second, in case another client keeps reverting them. A renewal of the CA and the certificate takes fewer writes than
// writesAtOnce.
const writesAtOnce = 10

var (
	// backoff has the delays after failed reconciles.
	backoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 5 * time.Minute}
	// watchBackoff has the delays between the watches of an object. The delays start again after a watch that lasted two
	// minutes.
	watchBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second, Jitter: 1}
)

// Options configures the address of the webhook.
type Options struct {
	// Namespace is the namespace of the operator, its Secret and its Service.
	Namespace string
	// ServiceName is the name of the Service through which the API server calls the webhook.
	ServiceName string
	// URL is the HTTPS URL that the API server calls, instead of the Service, if the operator runs out of cluster. Its
	// host is a DNS name or an IP address.
	URL string
	// Clock is the clock for the lifetimes of certificates and for delays.
	Clock clock.Clock
}

// Source reconciles the serving certificate, its CA and the CustomResourceDefinition, and provides the
// certificate to the webhook.
type Source struct {
	options Options
	kube    kubernetes.Interface
	crd     crdclientset.Interface
	writes  *rate.Limiter

	serving   atomic.Pointer[tls.Certificate]
	leads     atomic.Bool
	elsewhere atomic.Pointer[string] // the host of another installation that serves the webhook, or nil
	changed   chan struct{}          // has an item if Run must reconcile
}

// New returns a Source that has no certificate until it runs.
func New(kube kubernetes.Interface, crd crdclientset.Interface, options Options) *Source {
	return &Source{
		options: options,
		kube:    kube,
		crd:     crd,
		writes:  rate.NewLimiter(rate.Every(time.Second), writesAtOnce),
		changed: make(chan struct{}, 1),
	}
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
	if host := s.elsewhere.Load(); host != nil {
		return fmt.Errorf("%w: CustomResourceDefinition %s names the host %s of the other installation: only one "+
			"installation can serve the webhook", ErrForeign, CRDName, *host)
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
func (s *Source) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.watch(ctx, SecretName, s.kube.CoreV1().Secrets(s.options.Namespace).Watch) })
	watching.Go(func() { s.watch(ctx, CRDName, s.crd.ApiextensionsV1().CustomResourceDefinitions().Watch) })
	retries := backoff
	for {
		delay := retries.Step()
		switch err := s.reconcile(ctx); {
		case err == nil:
			delay, retries = recheck, backoff
		case ctx.Err() != nil:
			return
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
			klog.FromContext(ctx).V(2).Info("Another replica has written first; retrying", "err", err)
		default:
			klog.FromContext(ctx).Error(err, "Reconciling the webhook certificate failed")
		}
		select {
		case <-s.changed:
		case <-s.options.Clock.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// watch makes Run reconcile after every change of the object with a name, until ctx ends. open starts a watch.
func (s *Source) watch(
	ctx context.Context, name string, open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) {
	delays := watchBackoff.DelayWithReset(clock.RealClock{}, 2*time.Minute)
	_ = delays.Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		events, err := open(ctx, metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + name})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to watch an object of the webhook certificate", "name", name)
			return false, nil
		}
		defer context.AfterFunc(ctx, events.Stop)()
		s.wake() // the object may have changed before the watch started
		for range events.ResultChan() {
			s.wake()
		}
		return false, nil
	})
}

// wake makes Run reconcile.
func (s *Source) wake() {
	select {
	case s.changed <- struct{}{}:
	default: // Run has not handled the previous call yet
	}
}
