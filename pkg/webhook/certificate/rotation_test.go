package certificate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestFirstStartCreatesSecretAndSetsCABundle(t *testing.T) {
	h := newHouse(t)
	r := h.replica(Options{})
	if r.Ready() == nil {
		t.Error("it is ready before it has a certificate")
	}
	h.want(r.rest(),
		"Secret: CA 1; certificate 1 by CA 1",
		"CRD: CA 1")
	h.wantServed(r, "certificate 1")
	if err := r.Ready(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	h.wantIdle(r)

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

func TestSecondReplicaUsesExistingCertificate(t *testing.T) {
	h := newHouse(t)
	h.replica(Options{}).rest()
	r := h.replica(Options{})
	h.want(r.rest())
	h.wantServed(r, "certificate 1")
}

func TestServingCertificateIsRenewedAfterTwoThirdsOfLifetime(t *testing.T) {
	h := newHouse(t)
	options := Options{ServingLifetime: 90 * day}
	first, second := h.replica(options), h.replica(options)
	first.rest()
	second.rest()
	h.clock.Step(60*day - time.Minute)
	h.want(first.rest())
	h.clock.Step(time.Minute)
	h.want(second.rest(), "Secret: CA 1; certificate 2 by CA 1")
	h.want(first.rest())
	h.wantServed(first, "certificate 2")
	h.wantServed(second, "certificate 2")
}

func TestNewCASignsOnlyOnceOldCertificateIsDue(t *testing.T) {
	h := newHouse(t)
	options := Options{AuthorityLifetime: 120 * day, ServingLifetime: 90 * day}
	first, second := h.replica(options), h.replica(options)
	first.rest()
	second.rest()
	h.clock.Step(60 * day)
	h.want(first.rest(), "Secret: CA 1; certificate 2 by CA 1") // expires with its CA after 120 days

	h.clock.Step(20 * day)
	h.want(first.rest(),
		"Secret: CA 2, CA 1; certificate 2 by CA 1",
		"CRD: CA 2, CA 1")
	h.want(second.rest())
	h.wantServed(first, "certificate 2")
	h.wantServed(second, "certificate 2")

	h.clock.Step(20*day - time.Second)
	h.want(first.rest())
	h.want(second.rest())
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
	h.wantIdle(first)
}

func TestOldCASignsCertificateThatIsDueTogetherWithIt(t *testing.T) {
	h := newHouse(t)
	r := h.replica(Options{AuthorityLifetime: 120 * day, ServingLifetime: 120 * day})
	r.rest()
	h.clock.Step(80 * day)
	h.want(r.rest(),
		"Secret: CA 2, CA 1; certificate 2 by CA 1",
		"CRD: CA 2, CA 1")
	h.wantServed(r, "certificate 2")
	h.wantIdle(r)
}

func TestCertificatesAreReplacedAfterClockIsSetBack(t *testing.T) {
	h := newHouse(t)
	r := h.replica(Options{})
	r.rest()
	h.clock.SetTime(h.clock.Now().Add(-1000 * day))
	h.want(r.rest(),
		"Secret: CA 2, CA 1; certificate 2 by CA 2",
		"CRD: CA 2, CA 1")
	h.wantServed(r, "certificate 2")
	h.wantIdle(r)
	h.clock.Step(overlap)
	h.want(r.rest(),
		"Secret: CA 2; certificate 2 by CA 2",
		"CRD: CA 2")
	h.clock.Step(1000 * day)
	h.want(r.rest(), "Secret: CA 2; certificate 3 by CA 2")
	h.wantServed(r, "certificate 3")
}

func TestCertificateIsServedOnlyOnceAPIServerTrustsIt(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(Options{}), h.replica(Options{})
	if err := first.pass(); err != nil {
		t.Fatal(err)
	}
	second.watch()
	view, err := second.cached()
	if err != nil {
		t.Fatal(err)
	}
	second.serve(h.ctx, view)
	h.wantServed(second, "nothing")
	second.rest()
	h.wantServed(second, "certificate 1")
}

func TestRecreatedSecretKeepsOldCertificateTrusted(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(Options{}), h.replica(Options{})
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

func TestConcurrentWriteReturnsConflict(t *testing.T) {
	h := newHouse(t)
	options := Options{AuthorityLifetime: 30 * day}
	first, second := h.replica(options), h.replica(options)

	h.api.BeforeNextWrite(func() { h.api.Put(newSecretOf(h, first)) })
	if err := second.pass(); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("the Secret is made by another replica at the same time: %v", err)
	}
	h.api.BeforeNextWrite(func() { h.api.Put(h.api.Definition()) })
	if err := second.pass(); !apierrors.IsConflict(err) {
		t.Fatalf("the CustomResourceDefinition is changed at the same time: %v", err)
	}
	h.want(second.rest(), "CRD: CA 1")
	h.wantServed(second, "certificate 1")

	h.clock.Step(20 * day)
	h.api.BeforeNextWrite(func() { h.api.Put(h.secret()) })
	if err := first.pass(); !apierrors.IsConflict(err) {
		t.Fatalf("the Secret is changed at the same time: %v", err)
	}
}

// newSecretOf returns the Secret that a replica would create.
func newSecretOf(h *house, r *replica) *corev1.Secret {
	wanted, err := r.options.renew(content{}, nil, h.clock.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	data, err := wanted.changes(content{})
	if err != nil {
		h.t.Fatal(err)
	}
	return r.options.newSecret(data)
}

func TestReplicaWithOutdatedCacheKeepsNewCA(t *testing.T) {
	h := newHouse(t)
	options := Options{AuthorityLifetime: 30 * day}
	first, second := h.replica(options), h.replica(options)
	first.rest()
	second.rest()
	old := h.secret()

	h.clock.Step(20 * day)
	first.rest()
	h.api.Forget()
	second.watch()
	if err := second.kubeInformers.Core().V1().Secrets().Informer().GetStore().Update(old); err != nil {
		t.Fatal(err)
	}
	if err := second.sync(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.want(h.written())
}

func TestWritesAreLimitedWhileOtherClientRevertsThem(t *testing.T) {
	h := newHouse(t)
	r := h.replica(Options{})
	r.rest()
	h.api.Forget()
	var err error
	for i := 0; err == nil && i < 100; i++ {
		crd := h.api.Definition()
		crd.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
		h.api.Put(crd)
		err = r.pass()
	}
	if writes := len(h.api.Writes()); err == nil || writes > writesAtOnce {
		t.Errorf("after %d writes: %v", writes, err)
	}
	h.clock.Step(time.Minute)
	h.want(r.rest(), "CRD: CA 1")
}
