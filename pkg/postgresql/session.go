package postgresql

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Timeouts of requests in a session.
const (
	queryTimeout  = 5 * time.Second
	changeTimeout = 30 * time.Second // a change may copy or delete files, or wait for a checkpoint
	// statementTimeout and lockTimeout are settings of a session, with which the server itself cancels statements and
	// waits for locks.
	statementTimeout = 25 * time.Second
	lockTimeout      = 3 * time.Second
)

// session is a connection after the login.
type session struct {
	conn  *pgconn.PgConn
	hears hearing
	visit *visit
	// observe passes a request that began at began to Options.Observe.
	observe func(began time.Time, err error)
}

// request sends a request. The request fails if it takes longer than limit, or when the visit ends. request converts
// the error, and reports the result to observe and to the gate.
func (s *session) request(ctx context.Context, limit time.Duration, send func(context.Context) error) error {
	ctx, end := s.visit.within(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	err := send(ctx)
	if err != nil {
		err = s.hears.answer(ctx, err, limit)
	}
	s.observe(began, err)
	s.visit.asked(err)
	return err
}

// exec executes a statement, or several in one transaction.
func (s *session) exec(ctx context.Context, sql string) error {
	return s.request(ctx, changeTimeout, func(ctx context.Context) error {
		_, err := s.conn.Exec(ctx, sql).ReadAll()
		return err
	})
}

// result is the result of a query. Users see parts of a result, so query rejects a result that is not plausible.
type result interface{ plausible() bool }

// query decodes the result of a query that returns one JSON document.
func (s *session) query(ctx context.Context, into result, sql string, params ...[]byte) error {
	var rows [][][]byte
	err := s.request(ctx, queryTimeout, func(ctx context.Context) error {
		answer := s.conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
		rows = answer.Rows
		return answer.Err
	})
	if err == nil && (len(rows) != 1 || len(rows[0]) != 1 || json.Unmarshal(rows[0][0], into) != nil ||
		!into.plausible()) {
		return errors.New("the response of the server to a query is invalid")
	}
	return err
}

// close closes the connection without waiting for the server.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // the connection is closed even after an error
}

// parameters returns the parameters of a session. They take precedence over the settings of the role and of the
// database, which the user of the login can change with ALTER ROLE and ALTER DATABASE. The parameters are those that
// such a user may set to prevent a login, to delay a statement, or to make a response larger than the operator accepts.
// Every supported version of PostgreSQL has all of them.
func parameters() map[string]string {
	return map[string]string{
		"application_name": "windlass", "client_encoding": "UTF8",
		"search_path": "pg_catalog", "standard_conforming_strings": "on",
		"default_transaction_read_only": "off", "default_transaction_isolation": "read committed",
		"default_transaction_deferrable": "off", "client_min_messages": "error", "exit_on_error": "off",
		"local_preload_libraries": "", "jit": "off",
		"lock_timeout": milliseconds(lockTimeout), "statement_timeout": milliseconds(statementTimeout),
		"idle_session_timeout": "0", "idle_in_transaction_session_timeout": "0", "tcp_user_timeout": "0",
		"tcp_keepalives_idle": "0", "tcp_keepalives_interval": "0", "tcp_keepalives_count": "0",
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
