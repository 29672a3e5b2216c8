package certificate

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/cnat"
)

// Path is the path at which the webhook serves.
const Path = "/convert"

// Defaults of Options.
const (
	DefaultSecretName        = "windlass-webhook-certificate"
	DefaultServiceName       = "windlass-webhook"
	DefaultCRDName           = "ats." + cnat.GroupName
	DefaultServingLifetime   = 365 * 24 * time.Hour
	DefaultAuthorityLifetime = 10 * 365 * 24 * time.Hour
)

// Options configures the address of the webhook and the lifetimes of certificates.
type Options struct {
	// Namespace is the namespace of the operator, its Secret and its Service. It is required.
	Namespace string
	// SecretName is the name of the Secret with the certificate. Defaults to DefaultSecretName.
	SecretName string
	// ServiceName is the name of the Service through which the API server calls the webhook. Defaults to
	// DefaultServiceName.
	ServiceName string
	// URL is the URL that the API server calls, instead of the Service, if the controller runs outside of the
	// cluster. It has the form https://HOST[:PORT][/PATH]. PATH defaults to Path. The certificate is issued
	// for HOST, which is a DNS name or an IP address.
	URL string
	// CRDName is the name of the CustomResourceDefinition whose objects the webhook converts. Defaults to
	// DefaultCRDName.
	CRDName string

	// ServingLifetime and AuthorityLifetime are the lifetimes of the serving certificate and of the CA, which
	// are renewed after two thirds of their lifetimes. They default to DefaultServingLifetime and
	// DefaultAuthorityLifetime.
	ServingLifetime   time.Duration
	AuthorityLifetime time.Duration

	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// complete fills in the defaults. It returns an error if the options are invalid.
func (o *Options) complete() error {
	if o.Namespace == "" {
		return errors.New("the namespace of the webhook certificate is required")
	}
	setDefault(&o.SecretName, DefaultSecretName)
	setDefault(&o.ServiceName, DefaultServiceName)
	setDefault(&o.CRDName, DefaultCRDName)
	setDefault(&o.ServingLifetime, DefaultServingLifetime)
	setDefault(&o.AuthorityLifetime, DefaultAuthorityLifetime)
	if o.ServingLifetime < 0 || o.AuthorityLifetime < 0 {
		return fmt.Errorf("no duration may be negative: ServingLifetime %s, AuthorityLifetime %s",
			o.ServingLifetime, o.AuthorityLifetime)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o.completeURL()
}

// completeURL adds Path to a URL without a path. It returns an error for a URL that the API server would
// reject: see ValidateWebhookURL in k8s.io/apiserver/pkg/util/webhook.
func (o *Options) completeURL() error {
	if o.URL == "" {
		return nil
	}
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("parsing the URL of the webhook: %w", err)
	case u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("the URL of the webhook must have the form https://HOST[:PORT][/PATH], not %q", o.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the URL of the webhook must not have a user, a query or a fragment: %q", o.URL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = Path
	}
	o.URL = u.String()
	return nil
}

// hosts returns the hosts that the serving certificate must be valid for.
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
