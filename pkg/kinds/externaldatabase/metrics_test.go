package externaldatabase

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/postgresql"
)

func TestRequestsToServersAreMeasured(t *testing.T) {
	const server = "measured.example.com"
	for _, r := range []postgresql.Request{
		{Login: postgresql.LoginOwner},
		{Login: postgresql.LoginAdministrator, Err: postgresql.NewError(postgresql.LoginRejected, "wrong password")},
		{Login: postgresql.LoginAdministrator, Err: postgresql.NewError(postgresql.Silent, "no response")},
		{Login: postgresql.LoginAdministrator, Err: errors.New("something else")},
		{},
		{Err: postgresql.NewError(postgresql.Denied, "no privilege")},
	} {
		r.Server, r.Took = server, 2*time.Second
		Observe(r)
	}
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics",
		nil))
	for _, want := range []string{
		`windlass_postgresql_logins_total{result="success",role="owner",server="measured.example.com"} 1`,
		`windlass_postgresql_logins_total{result="rejected",role="administrator",server="measured.example.com"} 1`,
		`windlass_postgresql_logins_total{result="silent",role="administrator",server="measured.example.com"} 1`,
		`windlass_postgresql_logins_total{result="failed",role="administrator",server="measured.example.com"} 1`,
		`windlass_postgresql_request_duration_seconds_sum{server="measured.example.com"} 12`,
	} {
		if !strings.Contains(response.Body.String(), want+"\n") {
			t.Errorf("the metrics have no series %s", want)
		}
	}
}
