package postgresql

import (
	"strconv"
	"time"
)

// parameters returns the parameters of a session. They take precedence over the settings of the role and of the
// database, which the user of the login can change with ALTER ROLE and ALTER DATABASE. They are all that such a user
// may set and that could keep the operator from logging in, delay a statement, or add more to a response than the
// operator reads. Every version of PostgreSQL that is supported knows them.
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
