package externaldatabase

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/postgresql"
)

// The host of a server must not be a label: it comes from a Secret of a tenant. The label server is an entry of the
// flag --external-database-allowed-hosts, which the administrator of the operator sets.
var (
	requestDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "windlass_postgresql_request_duration_seconds",
		Help: "Duration of logins and statements on PostgreSQL servers, by the entry of " +
			"--external-database-allowed-hosts that allows the server (or unlisted).",
		Buckets:        []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	}, []string{"server"})
	logins = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "windlass_postgresql_logins_total",
		Help: "Logins to PostgreSQL servers by the entry of --external-database-allowed-hosts that allows " +
			"the server (or unlisted), role (administrator or owner) and result (success, rejected, silent or failed).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "role", "result"})
)

func init() { legacyregistry.MustRegister(requestDuration, logins) }

// Observe records a request in the metrics. It is the value of Observe in postgresql.Options.
func Observe(r postgresql.Request) {
	requestDuration.WithLabelValues(r.Server).Observe(r.Took.Seconds())
	if r.Login != "" {
		logins.WithLabelValues(r.Server, r.Login, loginResult(r.Err)).Inc()
	}
}

// loginResult returns the value of the label result for the error of a login.
func loginResult(err error) string {
	switch {
	case err == nil:
		return "success"
	case postgresql.ClassOf(err) == postgresql.LoginRejected:
		return "rejected"
	case postgresql.ClassOf(err) == postgresql.Silent:
		return "silent"
	}
	return "failed"
}
