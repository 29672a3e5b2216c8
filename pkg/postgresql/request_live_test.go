//go:build integration

package postgresql_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"windlass.dev/windlass/pkg/postgresql"
)

func TestRequestsAreObservedWithEntryOfAllowedHosts(t *testing.T) {
	allowed, err := postgresql.ParseAllowedHosts([]string{"127.0.0.0/20"})
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu   sync.Mutex
		seen []string
	)
	options := postgresql.Options{Allowed: allowed, Observe: func(r postgresql.Request) {
		mu.Lock()
		defer mu.Unlock()
		result := string(postgresql.ClassOf(r.Err))
		if r.Err == nil {
			result = "succeeds"
		}
		seen = append(seen, fmt.Sprintf("%s %s %s", r.Server, r.Login, result))
	}}
	as, want := settings(shared), newWant()
	if _, err := openWith(t, as, options).Ensure(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	wrong := as
	wrong.Password = "wrong"
	if _, err := openWith(t, wrong, options).Ensure(t.Context(),
		newWant()); postgresql.ClassOf(err) != postgresql.LoginRejected {
		t.Fatalf("a wrong password: %v", err)
	}
	nobody := as
	nobody.Port = 1
	if _, err := openWith(t, nobody, options).Ensure(t.Context(),
		newWant()); postgresql.ClassOf(err) != postgresql.Silent {
		t.Fatalf("a port without a server: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	logins := slices.DeleteFunc(slices.Clone(seen), func(what string) bool { return what == "127.0.0.0/20  succeeds" })
	wanted := []string{
		"127.0.0.0/20 administrator succeeds", "127.0.0.0/20 owner succeeds", "127.0.0.0/20 administrator LoginRejected",
		"127.0.0.0/20 administrator Silent",
	}
	if !slices.Equal(logins, wanted) {
		t.Errorf("the logins are %q\nwant %q", logins, wanted)
	}
	// Ensure queries the state before each of three changes, executes the changes, and queries the state as the owner.
	if statements := len(seen) - len(logins); statements < 5 {
		t.Errorf("%d statements were observed", statements)
	}
}
