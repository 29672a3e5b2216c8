package certificate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	// recheck is the time between two reconciles without an event. It is much shorter than a lifetime, because somebody
	// may set the clock. A reconcile that finds nothing to write sends no request.
	recheck = time.Hour
	// overlap is how long the API servers trust a CA after a new CA or serving certificate has made it unnecessary.
	overlap = time.Hour
)

// view is the state from which plan chooses the step.
type view struct {
	secret *corev1.Secret // nil if the Secret does not exist
	crd    *apiextensionsv1.CustomResourceDefinition
	leads  bool // whether this installation leads in this cluster
	now    time.Time
}

// step is one write that brings the Secret and the CustomResourceDefinition closer to their desired state. At most one
// of data and patch is set.
type step struct {
	// what is the message to log after the write.
	what string
	// data is what to change in the Secret, or to create it with.
	data map[string][]byte
	// patch is a merge patch of the CustomResourceDefinition's clientConfig.
	patch map[string]any
	// foreign is true if nothing is written because another installation serves the webhook.
	foreign bool
}

// writes reports whether there is anything to write.
func (s step) writes() bool { return s.data != nil || s.patch != nil }

// plan chooses the next step: first the Secret, then the CustomResourceDefinition.
func (o *Options) plan(v view) (step, error) {
	config, err := clientConfig(v.crd)
	if err != nil {
		return step{}, err
	}
	if v.secret != nil && !ours(v.secret) {
		return step{}, fmt.Errorf("the existing Secret %s/%s does not belong to Windlass, because it has no label "+
			"%s=%s: delete it",
			v.secret.Namespace, v.secret.Name, managedByLabel, managedBy)
	}
	c := v.content()
	trusted := parseBundle(config.CABundle, v.now)
	if !v.leads && o.foreign(config, c, trusted) {
		return step{foreign: true}, nil
	}
	if !o.addressed(config) {
		trusted = nil // these CAs belong to the installation that the API server calls now
	}
	wanted, err := o.renew(c, trusted, v.now)
	if err != nil {
		return step{}, err
	}
	data, err := wanted.changes(c)
	if err != nil {
		return step{}, err
	}
	if len(data) > 0 {
		return step{what: "Wrote the certificates of the webhook into the Secret", data: data}, nil
	}
	if patch := o.patch(config, encodeBundle(c.bundle...)); patch != nil {
		return step{what: "Wrote the address and the CAs of the webhook into the CustomResourceDefinition", patch: patch}, nil
	}
	return step{}, nil
}

// content returns the decoded content of the Secret.
func (v view) content() content {
	if v.secret == nil {
		return content{}
	}
	return parseContent(v.secret.Data, v.now)
}
