package certificate

import (
	"errors"
	"testing"

	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

// elsewhere configures a second installation.
var elsewhere = Options{Namespace: "elsewhere"}

// wantForeign checks that a replica is not ready because another installation serves the webhook, and that it
// writes nothing.
func (h *house) wantForeign(r *replica) {
	h.t.Helper()
	h.want(r.rest())
	if err := r.Ready(); !errors.Is(err, ErrForeign) {
		h.t.Errorf("while another installation converts, it is ready with: %v", err)
	}
}

func TestOnlyLeadingInstallationTakesOverConversion(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(), h.replicaOf(elsewhere)
	h.want(first.rest(), "Secret: CA 1; certificate 1 by CA 1", "CRD: CA 1")
	h.wantForeign(second)

	second.Lead()
	h.want(second.rest(), "Secret: CA 2; certificate 2 by CA 2", "CRD: CA 2")
	h.wantServed(second, "certificate 2")
	if err := second.Ready(); err != nil {
		t.Errorf("after it has taken over it is not ready: %v", err)
	}
	h.wantForeign(first)
	h.want(second.rest())

	// The second installation has ended, and its address is still in the CustomResourceDefinition.
	first.Lead()
	h.want(first.rest(), "CRD: CA 1")
	if err := first.Ready(); err != nil {
		t.Errorf("after it has taken it back it is not ready: %v", err)
	}
}

// reapply applies the CustomResourceDefinition again, which then names the Service of the installation in namespace,
// and keeps the caBundle.
func (h *house) reapply() {
	crd := webhooktest.NewCRD()
	crd.Spec.Conversion.Webhook.ClientConfig.CABundle = h.config().CABundle
	h.api.Put(crd)
}

func TestInstallationsDoNotFightOverConversion(t *testing.T) {
	for name, leads := range map[string]bool{"while the second one leads": true, "while none leads": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			first, second := h.replica(), h.replicaOf(elsewhere)
			if leads {
				second.Lead()
			}
			second.rest()
			first.rest()
			h.reapply()
			writes := 0
			for range 5 {
				writes += len(first.rest()) + len(second.rest())
			}
			if writes > 3 { // the first writes its Secret and the definition, and the second writes the definition
				t.Errorf("they wrote %d times", writes)
			}
			h.want(first.rest())
			address := h.config().Service.Namespace
			if want := map[bool]string{true: "elsewhere", false: namespace}[leads]; address != want {
				t.Errorf("in the end the installation in %s converts, want %s", address, want)
			}
		})
	}
}

func TestInstallationRepairsReappliedDefinitionWithItsCA(t *testing.T) {
	h := newHouse(t)
	r := h.replicaOf(elsewhere)
	r.rest()
	h.reapply()
	h.want(r.rest(), "CRD: CA 1")
}
