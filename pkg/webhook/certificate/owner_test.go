package certificate

import (
	"errors"
	"testing"

	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

// elsewhere configures a second installation.
var elsewhere = Options{Namespace: "elsewhere"}

// wantForeign checks that a replica is not ready because another installation serves the webhook, and that it
// sends no request.
func (h *house) wantForeign(r *replica) {
	h.t.Helper()
	if err := r.Ready(); !errors.Is(err, ErrForeign) {
		h.t.Errorf("while another installation converts, it is ready with: %v", err)
	}
	h.wantIdle(r)
}

func TestOnlyLeadingInstallationTakesOverConversion(t *testing.T) {
	h := newHouse(t)
	first, second := h.replica(Options{}), h.replica(elsewhere)
	h.want(first.rest(), "Secret: CA 1; certificate 1 by CA 1", "CRD: CA 1")
	h.want(second.rest())
	h.wantForeign(second)

	second.Lead()
	h.want(second.rest(), "Secret: CA 2; certificate 2 by CA 2", "CRD: CA 2")
	h.wantServed(second, "certificate 2")
	if err := second.Ready(); err != nil {
		t.Errorf("after it has taken over it is not ready: %v", err)
	}
	h.want(first.rest())
	h.wantForeign(first)
	h.wantIdle(second)

	// The second installation has ended, and its address is still in the CustomResourceDefinition.
	first.Lead()
	h.want(first.rest(), "CRD: CA 1")
	if err := first.Ready(); err != nil {
		t.Errorf("after it has taken it back it is not ready: %v", err)
	}
}

func TestInstallationsDoNotFightOverConversion(t *testing.T) {
	for name, leads := range map[string]bool{"while the second one leads": true, "while none leads": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			first, second := h.replica(Options{}), h.replica(elsewhere)
			if leads {
				second.Lead()
			}
			second.rest()
			first.rest()
			// If the CustomResourceDefinition is applied again, it names the Service of the first
			// installation and keeps the CA of the second.
			crd := webhooktest.NewCRD()
			crd.Spec.Conversion.Webhook.ClientConfig.CABundle = h.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle
			h.api.Put(crd)
			writes := 0
			for range 5 {
				writes += len(first.rest()) + len(second.rest())
			}
			if writes > 3 { // the first writes its Secret and the definition, and the second writes the definition
				t.Errorf("they wrote %d times", writes)
			}
			h.wantIdle(first)
			h.wantIdle(second)
			address := h.api.Definition().Spec.Conversion.Webhook.ClientConfig.Service.Namespace
			if want := map[bool]string{true: "elsewhere", false: namespace}[leads]; address != want {
				t.Errorf("in the end the installation in %s converts, want %s", address, want)
			}
		})
	}
}

func TestInstallationRepairsReappliedDefinitionWithItsCA(t *testing.T) {
	h := newHouse(t)
	r := h.replica(elsewhere)
	r.rest()
	crd := webhooktest.NewCRD()
	crd.Spec.Conversion.Webhook.ClientConfig.CABundle = h.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle
	h.api.Put(crd)
	h.want(r.rest(), "CRD: CA 1")
	h.wantIdle(r)
}
