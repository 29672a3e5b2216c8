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

// sqlServer is a PostgreSQL server outside of the cluster, as a run sees it: by a proxy,
// at which each login and statement can go wrong. What runs here is in no bubble.
type sqlServer struct {
	run   *run
	real  *postgres.Server
	proxy *postgres.Proxy
}

func newSQLServer(r *run, real *postgres.Server) (*sqlServer, error) {
	s := &sqlServer{run: r, real: real}
	var err error
	s.proxy, err = postgres.Intercept(real.Address(), s.asked)
	return s, err
}

// asked decides what becomes of a login or statement.
func (s *sqlServer) asked(what string) postgres.Cut {
	r := s.run
	p := r.newest.Load()
	if p == nil || p.isDead() {
		return postgres.BeforeStatement
	}
	r.asks()
	id := r.number("sql-"+r.plain(firstWords(what)), p, true)
	r.log("sq", nil, id+" "+r.plain(firstWords(what)), nil, nil)
	if r.records(true) && r.injector.diesAgain(p) {
		p.kill()
		return postgres.AfterStatement
	}
	if !r.injector.fires(id) {
		return ""
	}
	r.log("!!", nil, r.plan.String(), nil, nil)
	switch r.plan.fault {
	case diesBefore:
		p.kill()
		return postgres.BeforeStatement
	case diesAfter:
		p.kill()
		return postgres.AfterStatement
	case connectionCut:
		return postgres.BeforeStatement
	default:
		return postgres.AfterStatement
	}
}

var notInWords = regexp.MustCompile(`[^a-z0-9]+`)

// firstWords names a statement.
func firstWords(what string) string {
	words := strings.Fields(what)
	return strings.Trim(notInWords.ReplaceAllString(strings.ToLower(strings.Join(words[:min(3, len(words))], "-")), "-"), "-")
}

// cutAll ends the connections of a process that has died.
func (s *sqlServer) cutAll() {
	if s != nil {
		s.proxy.CutAll()
	}
}

// connections are the Secrets by which the operator gets there: the same server, said in
// two ways.
func (s *sqlServer) connections() map[string]map[string]string {
	return map[string]map[string]string{
		"server": {"host": "127.0.0.1", "port": s.proxy.Port, "username": "postgres", "password": s.real.Password, "sslmode": "disable"},
		"other":  {"uri": "postgres://postgres:" + s.real.Password + "@127.0.0.1:" + s.proxy.Port + "/postgres?sslmode=disable"},
	}
}

// exec has somebody else do something on the server.
func (s *sqlServer) exec(statement string) {
	ctx := context.Background()
	conn, err := s.real.Connect(ctx, "postgres")
	if err != nil {
		s.run.violate("connecting: %v", err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		s.run.violate("%s: %v", statement, err)
	}
}

// state is what the server has of a scope, as in the objects of a cluster.
func (s *sqlServer) state(ctx context.Context, scope string) (map[string]string, error) {
	conn, err := s.real.Connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	state := map[string]string{}
	s.logIn(ctx, state)
	databases, err := s.ask(ctx, conn, state, "database", `select datname, datname || ' ' || pg_get_userbyid(datdba) || ' ' || coalesce(datacl::text, '') || ' ' || coalesce(shobj_description(oid, 'pg_database'), '')
		from pg_database where datname like '%' || $1 || '%'`, scope)
	if err != nil {
		return nil, err
	}
	if _, err := s.ask(ctx, conn, state, "role", `select rolname, rolname || ' ' || array[rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls]::text || ' ' ||
		coalesce(shobj_description(oid, 'pg_authid'), '') from pg_roles where rolname like '%' || $1 || '%'`, scope); err != nil {
		return nil, err
	}
	for _, database := range databases {
		inside, err := s.real.Connect(ctx, database)
		if err != nil {
			return nil, err
		}
		_, err = s.ask(ctx, inside, state, "extension", `select extname, extname || ' ' || pg_get_userbyid(extowner) from pg_extension where $1 <> ''`, scope)
		_ = inside.Close(ctx)
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// logIn tells of each Secret of the operator's whether one gets in by it.
func (s *sqlServer) logIn(ctx context.Context, state map[string]string) {
	for _, o := range s.run.history.current() {
		var secret struct{ Data map[string][]byte }
		if resources[o.resource].Resource != "secrets" || o.Labels[controller.ManagedByLabel] == "" || json.Unmarshal(o.raw, &secret) != nil || string(secret.Data["host"]) != "127.0.0.1" {
			continue
		}
		name := "sql/login/" + s.run.plain(o.Name)
		config, err := pgx.ParseConfig(s.atServer(string(secret.Data["uri"])))
		if err != nil {
			state[name] = "cannot be: " + err.Error()
			continue
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			state[name] = "is refused"
			continue
		}
		state[name] = "works"
		_ = conn.Close(ctx) // it has shown what it should
	}
}

// atServer is a URI without the proxy, which has ended.
func (s *sqlServer) atServer(uri string) string {
	return strings.Replace(uri, ":"+s.proxy.Port+"/", ":"+s.real.Port+"/", 1)
}

func (s *sqlServer) ask(ctx context.Context, conn *pgx.Conn, state map[string]string, kind, query, scope string) (names []string, err error) {
	rows, err := conn.Query(ctx, query, scope)
	if err != nil {
		return nil, err
	}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		names = append(names, name)
		state[fmt.Sprintf("sql/%s/%s", kind, s.run.plain(name))] = s.run.plain(text)
		return nil
	})
	return names, err
}

// close ends the proxy, and removes from the server what is left of a scope.
func (s *sqlServer) close(ctx context.Context, scope string) error {
	s.proxy.Close()
	conn, err := s.real.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, left := range []string{
		`select 'DROP DATABASE ' || quote_ident(datname) || ' WITH (FORCE)' from pg_database where datname like '%' || $1 || '%'`,
		`select 'DROP ROLE ' || quote_ident(rolname) from pg_roles where rolname like '%' || $1 || '%'`,
	} {
		rows, err := conn.Query(ctx, left, scope)
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
