//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/postgres"
	"windlass.dev/windlass/test/world"
)

// scenario is something that the controller does on a server.
type scenario struct {
	// begin brings about what it begins with, uncut.
	begin func(t *testing.T, e *external)
	// act has the controller do it, and end returns when it is done.
	act, end func(t *testing.T, e *external)
}

var scenarios = map[string]scenario{
	"create": {
		begin: func(*testing.T, *external) {},
		act:   func(t *testing.T, e *external) { e.createWithExtensions(t) },
		end:   func(t *testing.T, e *external) { e.ready(t) },
	},
	"update": {
		begin: func(t *testing.T, e *external) {
			e.createWithExtensions(t)
			e.ready(t)
			e.pause(t, "true")
			e.do(t, e.spec().DatabaseName, "DROP EXTENSION pgcrypto; DROP EXTENSION pageinspect; GRANT ALL ON DATABASE @database TO PUBLIC; "+
				"COMMENT ON DATABASE @database IS NULL; ALTER ROLE @owner CREATEDB PASSWORD 'theirs'") // all at once
		},
		act: func(t *testing.T, e *external) { e.pause(t, "false") },
		end: func(t *testing.T, e *external) {
			world.Eventually(t, "all to be put right", func(ctx context.Context) (bool, error) {
				conn, err := e.connect(ctx, t)
				if err != nil {
					return false, nil
				}
				return e.state(t)["extensions"] == "pageinspect pgcrypto plpgsql", conn.Close(ctx)
			})
			e.ready(t)
		},
	},
	"delete": {
		begin: func(t *testing.T, e *external) { e.createWithExtensions(t); e.ready(t) },
		act:   func(t *testing.T, e *external) { e.delete(t) },
		end:   func(t *testing.T, e *external) { e.gone(t) },
	},
}

// pause has the controller leave the ExternalDatabase alone, or go on.
func (e *external) pause(t *testing.T, paused string) {
	t.Helper()
	e.update(t, func(db *v1alpha1.ExternalDatabase) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, "windlass.dev/paused", paused)
	})
}

func (e *external) createWithExtensions(t *testing.T) {
	t.Helper()
	e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) {
		s.Extensions = []v1alpha1.ExtensionName{"pgcrypto", "pageinspect"}
	})
}

// state is all that matters of role and database, without what differs from one to
// another.
func (e *external) state(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{
		"there": e.ask(t, "postgres", "select (select count(*) from pg_database where datname = 'database') || ' ' || (select count(*) from pg_roles where rolname = 'owner')"),
	}
	if state["there"] != "1 1" {
		return state
	}
	for what, sql := range map[string]string{
		"role":          "select concat_ws(' ', rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolvaliduntil) from pg_roles where rolname = 'owner'",
		"role's mark":   "select split_part(shobj_description(oid, 'pg_authid'), ' ', 1) from pg_roles where rolname = 'owner'",
		"members":       "select count(*) from pg_auth_members where roleid = (select oid from pg_roles where rolname = 'owner')",
		"database":      "select concat_ws(' ', pg_get_userbyid(datdba) = 'owner', datallowconn, datconnlimit) from pg_database where datname = 'database'",
		"mark":          "select split_part(shobj_description(oid, 'pg_database'), ' ', 1) from pg_database where datname = 'database'",
		"rights":        "select string_agg(privilege_type || ' of ' || (grantee = datdba), ', ' order by privilege_type) from pg_database, aclexplode(datacl) where datname = 'database'",
		"extensions":    "select string_agg(extname, ' ' order by extname) from pg_extension",
		"their schemas": "select string_agg(distinct extnamespace::regnamespace::text, ' ') from pg_extension",
	} {
		state[what] = e.ask(t, e.spec().DatabaseName, sql)
	}
	return state
}

// TestACutAnywhereLeavesNothingWrong cuts the connection before and after each login and
// statement of each scenario, once in each run. Every run ends as one without a cut.
func TestACutAnywhereLeavesNothingWrong(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, asked := s.run(t, "", 0, "")
			seen := map[string]int{}
			for _, statement := range asked {
				what := beginning(statement)
				n := seen[what]
				seen[what]++
				for _, cut := range []postgres.Cut{postgres.BeforeStatement, postgres.AfterStatement} {
					t.Run(fmt.Sprintf("%s %s %d", cut, what, n), func(t *testing.T) {
						t.Parallel()
						got, _ := s.run(t, what, n, cut)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("it ends otherwise (-wanted +got):\n%s", diff)
						}
					})
				}
			}
			t.Logf("cut before and after each of %v", seen)
		})
	}
}

// beginning is the first two words of a statement.
func beginning(statement string) string {
	words := strings.SplitN(statement, " ", 3)
	return strings.Join(words[:min(2, len(words))], " ")
}

// run does the scenario, with a cut unless that is empty, and returns the state at its
// end, and what was asked for.
func (s scenario) run(t *testing.T, what string, n int, cut postgres.Cut) (state map[string]string, asked []string) {
	t.Helper()
	server := outside(t)
	proxy := postgres.NewProxy(t, server.Address())
	e := newExternal(t, server, by(proxy, server))
	s.begin(t, e)
	before := len(proxy.Asked())
	if cut != "" {
		proxy.CutAt(what, n, cut)
	}
	s.act(t, e)
	s.end(t, e)
	asked = proxy.Asked()[before:]
	// A pass that was under way before may have made for more of what is asked for.
	isQuery := what == postgres.Login || strings.HasPrefix(what, "select")
	for cut != "" && !proxy.WasCut() && isQuery && e.exists(t) {
		e.touch(t)
		s.end(t, e)
	}
	if cut != "" && !proxy.WasCut() && n == 0 {
		t.Errorf("%s was not asked for", what)
	}
	if e.exists(t) {
		e.works(t)
	}
	return e.state(t), asked
}

// exists tells whether the ExternalDatabase is there.
func (e *external) exists(t *testing.T) bool {
	t.Helper()
	list, err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items) > 0
}
