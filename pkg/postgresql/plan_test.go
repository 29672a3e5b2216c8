package postgresql

import (
	"testing"

	"windlass.dev/windlass/test/postgres"
)

// TestOfflinePlanConnectsToNoServer calls each method of a Server that changes a PostgreSQL server.
func TestOfflinePlanConnectsToNoServer(t *testing.T) {
	server, as := plays(t, postgres.Silence)
	allowed, err := ParseAllowedHosts([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(sql string) { t.Errorf("the plan has the statement %s", sql) }
	connector, err := NewConnector(Options{Allowed: allowed, Plan: plan, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	want := Want{
		Mark: Mark{Namespace: "team", Name: "shop", UID: "uid"}, Database: "shop", Owner: "clerk",
		Password: "canary-of-clerk",
	}
	created := want
	created.ID = "7/8"
	open := connector.Open("team", as)
	defer open.Close()
	for w, expected := range map[*Want]Found{&want: {}, &created: {ID: "7/8", Current: true}} {
		if found, err := open.Exists(t.Context(), *w); err != nil || found != expected {
			t.Errorf("Exists returns %+v, %v; want %+v", found, err, expected)
		}
	}
	if id, err := open.Ensure(t.Context(), want); err != nil || id == "" {
		t.Errorf("Ensure returns %q, %v", id, err)
	}
	for name, err := range map[string]error{
		"Rotate": open.Rotate(t.Context(), created),
		"Retire": open.Retire(t.Context(), created),
		"Delete": open.Delete(t.Context(), created),
	} {
		if err != nil {
			t.Errorf("%s returns %v", name, err)
		}
	}
	if _, total := server.Connections(); total > 0 {
		t.Errorf("%d connections", total)
	}
}
