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
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// scenario is an operation of the controller on a server.
type scenario struct {
	// begin creates the initial state. The proxy does not cut the connection during begin.
	begin func(t *testing.T, e *external)
	// act starts the operation, and end returns when the controller has finished the operation.
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
			e.exec(t, e.spec().DatabaseName, "DROP EXTENSION pgcrypto; DROP EXTENSION pageinspect; GRANT ALL ON "+
				"DATABASE @database TO PUBLIC; "+
				// one string, so that all statements run in one transaction
				"COMMENT ON DATABASE @database IS NULL; ALTER ROLE @owner CREATEDB PASSWORD 'theirs'")
		},
		act: func(t *testing.T, e *external) { e.pause(t, "false") },
		end: func(t *testing.T, e *external) {
			framework.Eventually(t, "the drift on the server to be corrected", func(ctx context.Context) (bool, error) {
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
		end:   func(t *testing.T, e *external) { e.waitDeleted(t) },
	},
}

// pause sets the annotation windlass.dev/paused of the ExternalDatabase.
func (e *external) pause(t *testing.T, paused string) {
	t.Helper()
	e.update(t, func(db *v1alpha1.ExternalDatabase) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, "windlass.dev/paused", paused)
	})
}

// createWithExtensions creates the ExternalDatabase with two extensions.
func (e *external) createWithExtensions(t *testing.T) {
	t.Helper()
	e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) {
		s.Extensions = []v1alpha1.ExtensionName{"pgcrypto", "pageinspect"}
	})
}

// state returns the properties of the role and the database, without the parts that differ between two
// ExternalDatabases with equal specs.
func (e *external) state(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{
		"there": e.query(t, "postgres", "select (select count(*) from pg_database where datname = 'database') || ' ' "+
			"|| (select count(*) from pg_roles where rolname = 'owner')"),
	}
	if state["there"] != "1 1" {
		return state
	}
	for what, sql := range map[string]string{
		"role": "select concat_ws(' ', rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolreplication, " +
			"rolbypassrls, rolvaliduntil) from pg_roles where rolname = 'owner'",
		"role's mark": "select split_part(shobj_description(oid, 'pg_authid'), ' ', 1) from pg_roles where rolname = 'owner'",
		"members": "select count(*) from pg_auth_members where roleid = (select oid from pg_roles where " +
			"rolname = 'owner')",
		"database": "select concat_ws(' ', pg_get_userbyid(datdba) = 'owner', datallowconn, datconnlimit) from " +
			"pg_database where datname = 'database'",
		"mark": "select split_part(shobj_description(oid, 'pg_database'), ' ', 1) from pg_database where datname " +
			"= 'database'",
		"privileges": "select string_agg(privilege_type || ' of ' || (grantee = datdba), ', ' order by " +
			"privilege_type) from pg_database, aclexplode(datacl) where datname = 'database'",
		"extensions":    "select string_agg(extname, ' ' order by extname) from pg_extension",
		"their schemas": "select string_agg(distinct extnamespace::regnamespace::text, ' ') from pg_extension",
	} {
		state[what] = e.query(t, e.spec().DatabaseName, sql)
	}
	return state
}

// TestExternalDatabaseRecoversFromEveryConnectionCut runs each scenario several times. In each run, the proxy cuts the
// connection once, before or after a login or statement. The final state must equal the state after a run without a
// cut.
func TestExternalDatabaseRecoversFromEveryConnectionCut(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, statements := s.run(t, "", 0, "")
			seen := map[string]int{}
			for _, statement := range statements {
				what := beginning(statement)
				n := seen[what]
				seen[what]++
				for _, cut := range []postgres.Cut{postgres.BeforeStatement, postgres.AfterStatement} {
					t.Run(fmt.Sprintf("%s %s %d", cut, what, n), func(t *testing.T) {
						framework.InQuarter(t)
						t.Parallel()
						got, _ := s.run(t, what, n, cut)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("the final state (-want +got):\n%s", diff)
						}
					})
				}
			}
			t.Logf("the connection was cut before and after each of %v", seen)
		})
	}
}

// beginning returns the first two words of a statement.
func beginning(statement string) string {
	words := strings.SplitN(statement, " ", 3)
	return strings.Join(words[:min(2, len(words))], " ")
}

// run runs the scenario. If cut is not empty, n logins or statements that start with the text what pass, and the
// connection is cut at the next one. It returns the final state, and the logins and statements of the operation.
func (s scenario) run(
	t *testing.T, what string, n int, cut postgres.Cut,
) (state map[string]string, statements []string) {
	t.Helper()
	server := sharedServer(t)
	proxy := postgres.NewProxy(t, server.Address())
	e := newExternal(t, server, throughProxy(proxy, server))
	s.begin(t, e)
	before := len(proxy.Statements())
	if cut != "" {
		proxy.CutAt(what, n, cut)
	}
	s.act(t, e)
	s.end(t, e)
	statements = proxy.Statements()[before:]
	// The run without a cut may have had more reconciles than this run. Trigger reconciles until the proxy cuts the
	// connection.
	isQuery := what == postgres.Login || strings.HasPrefix(what, "select")
	for cut != "" && !proxy.WasCut() && isQuery && e.exists(t) {
		e.touch(t)
		s.end(t, e)
	}
	if cut != "" && !proxy.WasCut() && n == 0 {
		t.Errorf("the controller sent no statement %s", what)
	}
	if e.exists(t) {
		e.wantOwnerLogin(t)
	}
	return e.state(t), statements
}

// exists reports whether the ExternalDatabase exists.
func (e *external) exists(t *testing.T) bool {
	t.Helper()
	list, err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items) > 0
}
