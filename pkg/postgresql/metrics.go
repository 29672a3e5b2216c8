package postgresql

import (
	"net/netip"
	"path"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// unlistedServer is the value of the label server of all servers that no entry of AllowedHosts matches.
const unlistedServer = "unlisted"

// The host of a server comes from a Secret of a tenant, so it must not be a label: it would reveal the Secret, and a tenant
// could create any number of series. An entry of AllowedHosts comes from the administrator of the operator.
var (
	requestDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "windlass_postgresql_request_duration_seconds",
		Help:           "Duration of logins and statements on PostgreSQL servers, by the entry of --external-database-allowed-hosts that allows the server (or unlisted).",
		Buckets:        []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	}, []string{"server"})
	logins = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "windlass_postgresql_logins_total",
		Help:           "Logins to PostgreSQL servers by the entry of --external-database-allowed-hosts that allows the server (or unlisted), role (administrator or owner) and result (success, refused, silent or failed).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "role", "result"})
)

func init() { legacyregistry.MustRegister(requestDuration, logins) }

// The values of the label role.
const (
	roleAdministrator = "administrator"
	roleOwner         = "owner"
)

// observe records the duration of a statement that began at began.
func (s *session) observe(began time.Time) {
	requestDuration.WithLabelValues(s.server).Observe(time.Since(began).Seconds())
}

// countLogin counts a login that began at began and ended with err.
func countLogin(server, role string, began time.Time, err error) {
	result := "failed"
	switch {
	case err == nil:
		result = "success"
	case ClassOf(err) == Refused:
		result = "refused"
	case isSilent(err):
		result = "silent"
	}
	logins.WithLabelValues(server, role, result).Inc()
	requestDuration.WithLabelValues(server).Observe(time.Since(began).Seconds())
}

// entry returns the entry that matches a server, or unlistedServer. Exact names and addresses come first. address is the
// zero Addr if it is not known.
func (a AllowedHosts) entry(host string, address netip.Addr) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if literal, err := netip.ParseAddr(host); err == nil {
		address = literal
	}
	address = address.Unmap().WithZone("")
	found, exact := unlistedServer, false
	for _, prefix := range a.prefixes {
		if prefix.Contains(address) && !exact {
			found, exact = prefix.String(), prefix.IsSingleIP()
			if exact {
				found = prefix.Addr().String()
			}
		}
	}
	for _, pattern := range a.patterns {
		if matched, err := path.Match(pattern, host); matched && err == nil && !exact {
			found, exact = pattern, pattern == host
		}
	}
	return found
}
