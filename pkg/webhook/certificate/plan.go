package certificate

import (
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// view is the state from which plan chooses the step.
type view struct {
	secret    *corev1.Secret // nil if the Secret does not exist
	crd       *apiextensionsv1.CustomResourceDefinition
	announced announcement
	leads     bool // whether this installation leads in this cluster
	now       time.Time
}

// recheck is the longest time between two reconciles. It is much shorter than a lifetime, because somebody may
// set the clock. A reconcile that finds nothing to write sends no request.
const recheck = time.Hour

// announcement records since when this replica has observed the signing CA in the CustomResourceDefinition.
// It is not stored: a replica that restarts waits again, which does no harm.
type announcement struct {
	ca    *x509.Certificate
	since time.Time
}

// step is one write that brings the Secret and the CustomResourceDefinition closer to their desired state. At
// most one of create, update and patch is set.
type step struct {
	// what is the message to log after the write.
	what string
	// create is the data of a new Secret.
	create map[string][]byte
	// update holds the data to change in the Secret.
	update map[string][]byte
	// patch is a merge patch of the CustomResourceDefinition's clientConfig.
	patch map[string]any
	// next is the time of the next reconcile if there is nothing to write.
	next time.Time
	// foreign is true if nothing is written because another installation serves the webhook.
	foreign bool
}

// writes reports whether there is anything to write.
func (s step) writes() bool { return s.create != nil || s.update != nil || s.patch != nil }

// plan chooses the next step. Each case relies on the cases before it. For example, only a CA that is already in
// the CustomResourceDefinition signs the new certificate of an existing Secret.
func (o *Options) plan(v view) (step, error) {
	config, err := clientConfig(v.crd)
	if err != nil {
		return step{}, err
	}
	trusted := parseBundle(config.CABundle, v.now)
	if v.secret != nil && !ours(v.secret) {
		return step{}, fmt.Errorf("the existing Secret %s/%s does not belong to Windlass, because it has no label %s=%s: delete it",
			v.secret.Namespace, v.secret.Name, managedByLabel, managedBy)
	}
	var c content
	if v.secret != nil {
		c = parseContent(v.secret.Data, v.now)
	}
	if !v.leads && o.foreign(config, c, trusted) {
		return step{foreign: true, next: v.now.Add(recheck)}, nil
	}
	if !o.addressed(config) {
		trusted = nil // these CAs belong to the installation that the API server calls now
	}
	if v.secret == nil {
		return o.create(trusted, v.now)
	}
	due := o.due(c, v)
	if reached(due.authority, v.now) {
		return o.renewAuthority(c, trusted, v.now)
	}
	patch := o.patch(config, encodeBundle(c.bundle))
	switch {
	case patch["caBundle"] != nil:
		return step{what: "Wrote the CA into the CustomResourceDefinition", patch: patch}, nil
	case reached(due.serving, v.now):
		return o.renewServing(c, v.now)
	case patch != nil: // after the certificate is valid for the new address
		return step{what: "Wrote the address of the webhook into the CustomResourceDefinition", patch: patch}, nil
	case reached(due.cleanup, v.now):
		return step{
			what:   "Removed CAs that did not sign the serving certificate",
			update: map[string][]byte{bundleKey: encodeBundle([]*x509.Certificate{c.signer.certificate})},
		}, nil
	}
	return step{next: due.next(v.now)}, nil
}

// deadlines holds the times of renewals. The zero time means never.
type deadlines struct {
	authority time.Time // a new CA
	serving   time.Time // a new serving certificate
	cleanup   time.Time // the removal of all CAs but the signing CA
}

func (o *Options) due(c content, v view) deadlines {
	switch {
	case c.signer == nil:
		return deadlines{authority: v.now}
	case c.serving == nil:
		// No working certificate has to be preserved.
		return deadlines{serving: v.now}
	case !c.signed():
		// A CA is being renewed. The old certificate stays until the API servers trust the new CA.
		if !c.signer.certificate.Equal(v.announced.ca) {
			return deadlines{}
		}
		return deadlines{serving: v.announced.since.Add(o.Settle)}
	}
	d := deadlines{authority: renewAt(c.signer.certificate), serving: renewAt(c.serving.Leaf)}
	if !c.covers(o.hosts()) {
		d.serving = v.now
	}
	if len(c.bundle) > 1 {
		d.cleanup = issuedAt(c.serving.Leaf).Add(o.Settle)
	}
	return d
}

func reached(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }

// next returns the earliest deadline, or now plus recheck if that is earlier.
func (d deadlines) next(now time.Time) time.Time {
	earliest := now.Add(recheck)
	for _, t := range []time.Time{d.authority, d.serving, d.cleanup} {
		if !t.IsZero() && t.Before(earliest) {
			earliest = t
		}
	}
	return earliest
}
