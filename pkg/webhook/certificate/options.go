package certificate

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/cnat"
)

// Path is where the API server calls the webhook.
const Path = "/convert"

// Defaults of Options.
const (
	DefaultSecretName        = "windlass-webhook-certificate"
	DefaultServiceName       = "windlass-webhook"
	DefaultCRDName           = "ats." + cnat.GroupName
	DefaultServingLifetime   = 90 * 24 * time.Hour
	DefaultAuthorityLifetime = 10 * 365 * 24 * time.Hour
	DefaultSettle            = 5 * time.Minute
)

// Options say where the API server finds the webhook, and how long certificates
// live.
type Options struct {
	// Namespace is where the operator, its Secret and its Service are. Required.
	Namespace string
	// SecretName is the Secret with the certificate. Defaults to
	// DefaultSecretName.
	SecretName string
	// ServiceName is the Service through which the API server calls the webhook.
	// Defaults to DefaultServiceName.
	ServiceName string
	// URL is what the API server calls instead of a Service, for a controller that
	// runs out of cluster: https://HOST[:PORT]. A path of Path is added if it has
	// none. The host, a DNS name or an IP address, is what the certificate is for.
	URL string
	// CRDName is the CustomResourceDefinition whose conversion this is. Defaults
	// to DefaultCRDName.
	CRDName string

	// ServingLifetime and AuthorityLifetime are how long the serving certificate
	// and the CA are valid. Each is renewed after two thirds of it. They default to
	// DefaultServingLifetime and DefaultAuthorityLifetime.
	ServingLifetime   time.Duration
	AuthorityLifetime time.Duration
	// Settle is how long the renewal of a CA waits, twice, until all API servers
	// and all replicas of the controller have seen the step before. It should be
	// longer than a Service keeps Pods whose node cannot be reached. Defaults to
	// DefaultSettle.
	Settle time.Duration

	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// complete fills in the defaults, and refuses what cannot work.
func (o *Options) complete() error {
	if o.Namespace == "" {
		return errors.New("the webhook's certificate needs a namespace for its Secret")
	}
	setDefault(&o.SecretName, DefaultSecretName)
	setDefault(&o.ServiceName, DefaultServiceName)
	setDefault(&o.CRDName, DefaultCRDName)
	setDefault(&o.ServingLifetime, DefaultServingLifetime)
	setDefault(&o.AuthorityLifetime, DefaultAuthorityLifetime)
	setDefault(&o.Settle, DefaultSettle)
	if o.ServingLifetime < 0 || o.AuthorityLifetime < 0 || o.Settle < 0 {
		return fmt.Errorf("lifetimes of certificates cannot be negative: serving %s, CA %s, settle %s",
			o.ServingLifetime, o.AuthorityLifetime, o.Settle)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o.completeURL()
}

// completeURL refuses what the API server would refuse as well: see
// ValidateWebhookURL in k8s.io/apiserver/pkg/util/webhook.
func (o *Options) completeURL() error {
	if o.URL == "" {
		return nil
	}
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("the webhook's URL: %w", err)
	case u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("the webhook's URL %q is not https://HOST[:PORT]", o.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the webhook's URL %q may not have a user, a query or a fragment", o.URL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = Path
	}
	o.URL = u.String()
	return nil
}

// hosts are what the API server takes the webhook for.
func (o *Options) hosts() []string {
	if u, err := url.Parse(o.URL); err == nil && o.URL != "" {
		return []string{u.Hostname()}
	}
	service := o.ServiceName + "." + o.Namespace + ".svc"
	return []string{service, service + ".cluster.local"}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
