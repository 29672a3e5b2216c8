//go:build integration

package postgresql_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/postgresql"
)

func TestLoginsAndStatementsAreMeasuredByEntryOfAllowedHosts(t *testing.T) {
	const entry = "127.0.0.0/20" // which no other test uses
	allowed, err := postgresql.ParseAllowedHosts([]string{entry})
	if err != nil {
		t.Fatal(err)
	}
	as, want := settings(shared), newWant()
	if _, err := openWith(t, as, postgresql.Options{Allowed: allowed}).Create(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	wrong := as
	wrong.Password = "wrong"
	if _, err := openWith(t, wrong, postgresql.Options{Allowed: allowed}).Create(t.Context(), newWant()); postgresql.ClassOf(err) != postgresql.Refused {
		t.Fatalf("a wrong password: %v", err)
	}
	nobody := as
	nobody.Port = 1
	if _, err := openWith(t, nobody, postgresql.Options{Allowed: allowed}).Create(t.Context(), newWant()); postgresql.ClassOf(err) != postgresql.Silent {
		t.Fatalf("a port without a server: %v", err)
	}
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	var counts, durations []string
	for line := range strings.Lines(response.Body.String()) {
		switch {
		case strings.HasPrefix(line, "windlass_postgresql_logins_total{") && strings.Contains(line, `server="`+entry+`"`):
			counts = append(counts, strings.TrimSpace(line))
		case strings.HasPrefix(line, `windlass_postgresql_request_duration_seconds_count{server="`+entry+`"}`):
			durations = append(durations, strings.TrimSpace(line))
		}
	}
	wanted := []string{
		`windlass_postgresql_logins_total{result="refused",role="administrator",server="127.0.0.0/20"} 1`,
		`windlass_postgresql_logins_total{result="silent",role="administrator",server="127.0.0.0/20"} 1`,
		`windlass_postgresql_logins_total{result="success",role="administrator",server="127.0.0.0/20"} 1`,
		`windlass_postgresql_logins_total{result="success",role="owner",server="127.0.0.0/20"} 1`,
	}
	if !slices.Equal(counts, wanted) {
		t.Errorf("the logins are %q\nwant %q", counts, wanted)
	}
	if len(durations) != 1 || strings.HasSuffix(durations[0], " 4") { // the logins alone
		t.Errorf("the durations are %q, want one series with more than the four logins", durations)
	}
	if strings.Contains(response.Body.String(), want.Owner) || strings.Contains(response.Body.String(), want.Password) {
		t.Error("the metrics contain a name or a password")
	}
}
