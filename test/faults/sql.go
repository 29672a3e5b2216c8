package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/test/postgres"
)

// sqlServer is a PostgreSQL server outside of the cluster, behind the proxy of a run. The proxy injects a fault at a
// login or statement.
type sqlServer struct {
	run   *run
	real  *postgres.Server
	proxy *postgres.Proxy
}

func newSQLServer(r *run, real *postgres.Server) (*sqlServer, error) {
	s := &sqlServer{run: r, real: real}
	var err error
	s.proxy, err = postgres.Intercept(real.Address(), s.intercept)
	return s, err
}

// intercept returns whether the proxy cuts the connection before or after a login or statement. It returns "" if the
// proxy does not cut the connection. The proxy calls intercept outside of the bubble.
func (s *sqlServer) intercept(statement string) postgres.Cut {
	r := s.run
	p := r.newestProcess.Load()
	if p == nil || p.isDead() {
		return postgres.BeforeStatement
	}
	r.countRequest()
	id := r.recordID("sql-"+r.stableName(statementName(statement)), p, true)
	r.log("sq", nil, id+" "+r.stableName(statementName(statement)), nil, nil)
	if r.isRecording(true) && r.injector.isSecondDeath(p) {
		p.markDead()
		return postgres.AfterStatement
	}
	if !r.injector.reaches(id) {
		return ""
	}
	r.log("!!", nil, r.plan.String(), nil, nil)
	switch r.plan.fault {
	case diesBefore:
		p.markDead()
		return postgres.BeforeStatement
	case diesAfter:
		p.markDead()
		return postgres.AfterStatement
	case connectionCut:
		return postgres.BeforeStatement
	default:
		return postgres.AfterStatement
	}
}

var nonWord = regexp.MustCompile(`[^a-z0-9]+`)

// statementName returns the first three words of a statement, for the ID of the statement.
func statementName(statement string) string {
	words := strings.Fields(statement)
	return strings.Trim(nonWord.ReplaceAllString(strings.ToLower(strings.Join(words[:min(3, len(words))], "-")), "-"), "-")
}

// cutAll ends all connections through the proxy, after a process has died.
func (s *sqlServer) cutAll() {
	if s != nil {
		s.proxy.CutAll()
	}
}

// connectionSecrets returns the data of the connection Secrets, by name. Both Secrets name the same server: one has
// separate keys, and the other has a URI.
func (s *sqlServer) connectionSecrets() map[string]map[string]string {
	return map[string]map[string]string{
		"server": {
			"host": "127.0.0.1", "port": s.proxy.Port, "username": "postgres", "password": s.real.Password, "sslmode": "disable",
		},
		"other": {
			"uri": "postgres://postgres:" + s.real.Password + "@127.0.0.1:" + s.proxy.Port + "/postgres?sslmode=disable",
		},
	}
}

// exec executes a statement as another client of the server, without the proxy.
func (s *sqlServer) exec(statement string) {
	ctx := context.Background()
	conn, err := s.real.Connect(ctx, "postgres")
	if err != nil {
		s.run.addViolation("connecting to the PostgreSQL server: %v", err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		s.run.addViolation("%s: %v", statement, err)
	}
}

// state returns the databases, roles and extensions of a run on the server as texts, by name, and the results of
// checkLogins.
func (s *sqlServer) state(ctx context.Context, namespace string) (map[string]string, error) {
	conn, err := s.real.Connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	state := map[string]string{}
	s.checkLogins(ctx, state)
	databases, err := s.collect(ctx, conn, state, "database",
		`select datname, datname || ' ' || pg_get_userbyid(datdba) || ' ' || coalesce(datacl::text, '') || ' ' ||
		coalesce(shobj_description(oid, 'pg_database'), '')
		from pg_database where datname like '%' || $1 || '%'`, namespace)
	if err != nil {
		return nil, err
	}
	if _, err := s.collect(ctx, conn, state, "role",
		`select rolname, rolname || ' ' ||
		array[rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls]::text || ' ' ||
		coalesce(shobj_description(oid, 'pg_authid'), '') from pg_roles where rolname like '%' || $1 || '%'`,
		namespace); err != nil {
		return nil, err
	}
	for _, database := range databases {
		inner, err := s.real.Connect(ctx, database)
		if err != nil {
			return nil, err
		}
		_, err = s.collect(ctx, inner, state, "extension",
			`select extname, extname || ' ' || pg_get_userbyid(extowner) from pg_extension where $1 <> ''`, namespace)
		_ = inner.Close(ctx)
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// checkLogins logs in to the server with the credentials in each Secret of an ExternalDatabase, and adds the results
// to state.
func (s *sqlServer) checkLogins(ctx context.Context, state map[string]string) {
	for _, o := range s.run.history.current() {
		var secret struct{ Data map[string][]byte }
		if resources[o.resource].Resource != "secrets" || o.Labels[controller.ManagedByLabel] == "" ||
			json.Unmarshal(o.raw, &secret) != nil || string(secret.Data["host"]) != "127.0.0.1" {
			continue
		}
		name := "sql/login/" + s.run.stableName(o.Name)
		config, err := pgx.ParseConfig(s.withoutProxy(string(secret.Data["uri"])))
		if err != nil {
			state[name] = "has an invalid URI: " + err.Error()
			continue
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			state[name] = "is rejected"
			continue
		}
		state[name] = "works"
		_ = conn.Close(ctx) // only the login is of interest
	}
}

// withoutProxy returns a URI with the port of the server in place of the port of the proxy.
func (s *sqlServer) withoutProxy(uri string) string {
	return strings.Replace(uri, ":"+s.proxy.Port+"/", ":"+s.real.Port+"/", 1)
}

func (s *sqlServer) collect(
	ctx context.Context, conn *pgx.Conn, state map[string]string, kind, query, namespace string,
) (names []string, err error) {
	rows, err := conn.Query(ctx, query, namespace)
	if err != nil {
		return nil, err
	}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		names = append(names, name)
		state[fmt.Sprintf("sql/%s/%s", kind, s.run.stableName(name))] = s.run.stableName(text)
		return nil
	})
	return names, err
}

// close closes the proxy, and removes the databases and roles of a run from the server.
func (s *sqlServer) close(ctx context.Context, namespace string) error {
	s.proxy.Close()
	conn, err := s.real.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, query := range []string{
		`select 'DROP DATABASE ' || quote_ident(datname) || ' WITH (FORCE)' from pg_database where datname like '%' ` +
			`|| $1 || '%'`,
		`select 'DROP ROLE ' || quote_ident(rolname) from pg_roles where rolname like '%' || $1 || '%'`,
	} {
		rows, err := conn.Query(ctx, query, namespace)
		if err != nil {
			return err
		}
		drops, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, drop := range drops {
			if _, err := conn.Exec(ctx, drop); err != nil {
				return err
			}
		}
	}
	return nil
}
