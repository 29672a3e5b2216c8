package certificate

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"windlass.dev/windlass/pkg/certificates"
)

// The ages at which certificates are due for renewal.
const (
	servingDue   = certificates.ServingLifetime / 3 * 2
	authorityDue = certificates.AuthorityLifetime / 3 * 2
)

func TestFirstStartCreatesSecretAndSetsCABundle(t *testing.T) {
	h := newHouse(t)
	r, second := h.replica(), h.replica()
	for _, starting := range []*replica{r, second} {
		if err := starting.reconcile(h.ctx); err != nil {
			t.Fatal(err)
		}
		h.wantServed(starting, "nothing") // the API server does not trust the certificate yet
	}
	h.want(h.written(), "Secret: CA 1; certificate 1 by CA 1", "CRD: CA 1")
	if r.Ready() == nil {
		t.Error("it is ready before it has a certificate")
	}
	h.want(r.rest())
	h.want(second.rest())
	h.wantServed(r, "certificate 1")
	h.wantServed(second, "certificate 1")
	if err := r.Ready(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}

	secret := h.secret()
	if secret.Type != corev1.SecretTypeTLS || secret.Labels["app.kubernetes.io/managed-by"] != "windlass" ||
		len(secret.Data) != 4 {
		t.Errorf("the Secret is %s with labels %v and %d keys", secret.Type, secret.Labels, len(secret.Data))
	}
	certificate, _ := r.GetCertificate(nil)
	for _, host := range []string{
		"windlass-webhook.windlass-system.svc", "windlass-webhook.windlass-system.svc.cluster.local",
	} {
		if err := certificate.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if got, want := certificate.Leaf.NotAfter, h.clock.Now().Add(365*day); !got.Equal(want) {
		t.Errorf("the certificate ends at %s, want %s", got, want)
	}
}

func TestServingCertificateIsRenewedAfterTwoThirdsOfLifetime(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(), h.replica()
	first.rest()
	second.rest()
	h.clock.Step(servingDue - time.Minute)
	h.want(first.rest())
	h.clock.Step(time.Minute)
	h.want(second.rest(), "Secret: CA 1; certificate 2 by CA 1")
	h.want(first.rest())
	h.wantServed(first, "certificate 2")
	h.wantServed(second, "certificate 2")
}

func TestNewCASignsAfterOverlap(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(), h.replica()
	first.rest()
	h.clock.Step(authorityDue - 100*day)
	h.want(first.rest(), "Secret: CA 1; certificate 2 by CA 1")
	h.want(second.rest())

	h.clock.Step(100 * day)
	h.want(first.rest(),
		"Secret: CA 2, CA 1; certificate 2 by CA 1",
		"CRD: CA 2, CA 1")
	h.want(second.rest())
	h.wantServed(first, "certificate 2")
	h.wantServed(second, "certificate 2")

	h.clock.Step(overlap - time.Second)
	h.want(first.rest())
	h.clock.Step(time.Second)
	h.want(second.rest(), "Secret: CA 2, CA 1; certificate 3 by CA 2")
	h.wantServed(second, "certificate 3")
	h.wantServed(first, "certificate 2")
	h.want(first.rest())
	h.wantServed(first, "certificate 3")

	h.clock.Step(overlap - time.Second)
	h.want(second.rest())
	h.clock.Step(time.Second)
	h.want(second.rest(),
		"Secret: CA 2; certificate 3 by CA 2",
		"CRD: CA 2")
	h.want(first.rest())
	h.wantServed(first, "certificate 3")
}

func TestCertificatesAreReplacedAfterClockIsSetBack(t *testing.T) {
	h := newHouse(t)
	r := h.replica()
	r.rest()
	h.clock.SetTime(h.clock.Now().Add(-1000 * day))
	h.want(r.rest(),
		"Secret: CA 2, CA 1; certificate 2 by CA 2",
		"CRD: CA 2, CA 1")
	h.wantServed(r, "certificate 2")
	h.clock.Step(overlap)
	h.want(r.rest(),
		"Secret: CA 2; certificate 2 by CA 2",
		"CRD: CA 2")
	h.clock.Step(1000 * day)
	h.want(r.rest(), "Secret: CA 2; certificate 3 by CA 2")
	h.wantServed(r, "certificate 3")
}

func TestRecreatedSecretKeepsOldCertificateTrusted(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(), h.replica()
	first.rest()
	second.rest()
	h.api.Delete(h.secret())
	h.want(first.rest(),
		"Secret: CA 2, CA 1; certificate 2 by CA 2",
		"CRD: CA 2, CA 1")
	h.wantServed(second, "certificate 1")
	h.clock.Step(overlap)
	h.want(second.rest(),
		"Secret: CA 2; certificate 2 by CA 2",
		"CRD: CA 2")
	h.wantServed(second, "certificate 2")
}

func TestRecentCAsAreLimited(t *testing.T) {
	h := newHouse(t)
	r := h.replica()
	r.rest()
	for range 20 {
		secret := h.secret()
		delete(secret.Data, "ca.key")
		h.api.Put(secret)
		r.rest()
		h.clock.Step(2 * time.Second) // for the limit of writes
	}
	h.wantServed(r, "certificate 1")
	if got := certificates.ParseBundle(h.config().CABundle, h.clock.Now()); len(got) != 8 {
		t.Errorf("%d CAs are trusted, want 8", len(got))
	}
	h.clock.Step(overlap)
	h.want(r.rest(),
		"Secret: CA 21, CA 1, CA 20, CA 19, CA 18, CA 17, CA 16, CA 15; certificate 2 by CA 21")
	h.wantServed(r, "certificate 2")
	h.clock.Step(overlap)
	h.want(r.rest(), "Secret: CA 21; certificate 2 by CA 21", "CRD: CA 21")
}

func TestConcurrentWriteReturnsConflict(t *testing.T) {
	h := newHouse(t)
	r := h.replica()
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: SecretName, Labels: map[string]string{managedByLabel: managedBy},
	}}
	h.api.BeforeNextWrite(func() { h.api.Put(empty) })
	if err := r.reconcile(h.ctx); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("the Secret is made by another replica at the same time: %v", err)
	}
	h.api.BeforeNextWrite(func() { h.api.Put(h.secret()) })
	if err := r.reconcile(h.ctx); !apierrors.IsConflict(err) {
		t.Fatalf("the Secret is changed at the same time: %v", err)
	}
	if err := r.reconcile(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.api.BeforeNextWrite(func() { h.api.Put(h.api.Definition()) })
	if err := r.reconcile(h.ctx); !apierrors.IsConflict(err) {
		t.Fatalf("the CustomResourceDefinition is changed at the same time: %v", err)
	}
	h.want(r.rest(), "CRD: CA 1")
}

func TestReplicaThatReadsDuringRenewalKeepsNewCA(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(), h.replica()
	first.rest()
	oldSecret, oldDefinition := h.secret(), h.api.Definition()
	h.clock.Step(authorityDue)
	first.rest()
	newSecret, newDefinition := h.secret(), h.api.Definition()

	h.api.Put(oldSecret)
	h.api.Put(oldDefinition)
	h.api.CRD.PrependReactor("get", "customresourcedefinitions",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			h.api.Put(newSecret)
			h.api.Put(newDefinition)
			return false, nil, nil
		})
	h.want(second.rest())
}

func TestWritesAreLimitedWhileOtherClientRevertsThem(t *testing.T) {
	h := newHouse(t)
	r := h.replica()
	r.rest()
	h.api.Forget()
	var err error
	for i := 0; err == nil && i < 100; i++ {
		crd := h.api.Definition()
		crd.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
		h.api.Put(crd)
		err = r.reconcile(h.ctx)
	}
	if writes := len(h.api.Writes()); err == nil || writes > writesAtOnce {
		t.Errorf("after %d writes: %v", writes, err)
	}
	h.clock.Step(time.Minute)
	h.want(r.rest(), "CRD: CA 1")
}

func TestServingCertificateEndsWithItsCA(t *testing.T) {
	h := newHouse(t)
	r := h.replica()
	r.rest()
	// The operator was off for some years, so that the CA signs once more before it is replaced.
	h.clock.Step(certificates.AuthorityLifetime - 100*day)
	r.rest()
	if _, err := r.GetCertificate(nil); err != nil {
		t.Fatal(err)
	}
	certificate, _ := r.GetCertificate(nil)
	for _, ca := range certificates.ParseBundle(h.secret().Data["ca.crt"], time.Time{}) {
		if certificate.Leaf.CheckSignatureFrom(ca) == nil && certificate.Leaf.NotAfter.After(ca.NotAfter) {
			t.Errorf("the certificate ends at %s, but its CA at %s", certificate.Leaf.NotAfter, ca.NotAfter)
		}
	}
}

// TestWatchThatEndsIsOpenedAgain ends the first watch of the Secret, as an API server that restarts does.
func TestWatchThatEndsIsOpenedAgain(t *testing.T) {
	h := newHouse(t)
	opened := make(chan *watch.RaceFreeFakeWatcher, 2)
	h.api.Kube.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) {
		watcher := watch.NewRaceFreeFake()
		opened <- watcher
		return true, watcher, nil
	})
	ctx, stop := context.WithCancel(h.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.replica().Run(ctx)
	}()
	(<-opened).Stop()
	<-opened
	stop()
	<-ended
}
