package postgresql

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is the kind of an error. Callers use it to decide what to do.
type Class string

// Classes of errors.
const (
	// Other: any other error, such as a lost connection. Retry.
	Other Class = ""
	// Busy: other callers use all slots for slow servers. Retry after RetryAfter, and do not report the error to users.
	Busy Class = "Busy"
	// Silent: no PostgreSQL server responds, or the server is starting, or it stopped responding.
	Silent Class = "Silent"
	// Away: the server cannot execute the request now. For example, it is stopping, is a standby, or accepts
	// no more connections, or another session uses the role or the database.
	Away Class = "Away"
	// Forbidden: AllowedHosts does not allow the server.
	Forbidden Class = "Forbidden"
	// Untrusted: the server cannot be verified, or has no TLS.
	Untrusted Class = "Untrusted"
	// Unverified: the server asks for the password, or for a hash of it, and is not verified.
	Unverified Class = "Unverified"
	// LoginRejected: the server rejects the login.
	LoginRejected Class = "LoginRejected"
	// Denied: the administrator lacks a privilege or an attribute.
	Denied Class = "Denied"
	// Uninherited: the administrator has the attribute NOINHERIT.
	Uninherited Class = "Uninherited"
	// Unlisted: the owner may not create an extension, and UntrustedExtensions does not list it.
	Unlisted Class = "Unlisted"
	// Taken: a role or database with the desired name exists and is not ours: see ConflictOf.
	Taken Class = "Taken"
	// Protected: the role with the desired name is an administrator or a role of the server itself: see ConflictOf.
	Protected Class = "Protected"
	// Kept: the owner was handed over, and does not accept the password. The operator does not change its password.
	Kept Class = "Kept"
	// Unproven: the server accepts the new password of a login, but the login cannot use the database now.
	Unproven Class = "Unproven"
	// Replaced: the server, or the database on it, was replaced by another one.
	Replaced Class = "Replaced"
	// Rejected: the server cannot reach the desired state, for example because it lacks an extension, or
	// because other objects depend on the role.
	Rejected Class = "Rejected"
)

// failure is an error with a class.
type failure struct {
	error
	class Class
	// code is the SQLSTATE code that the server reported, or "".
	code string
	// routine is the function of PostgreSQL that reported the error, or "".
	routine string
	// detail is for the administrator of the operator, because it may reveal what responds at an address.
	detail   string
	conflict Conflict
	// after is the delay before a caller should retry. Only errors of class Busy have it.
	after time.Duration
}

func (f *failure) Unwrap() error { return f.error }

// failureOf returns the outermost failure that err wraps, or the zero value if there is none.
func failureOf(err error) failure {
	var known *failure
	if errors.As(err, &known) {
		return *known
	}
	return failure{}
}

// NewError returns an error of a class. If the error wraps an error of this package, it keeps the Detail, the Conflict
// and the SQLSTATE code of the wrapped error.
func NewError(class Class, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	failed := failureOf(err)
	failed.error, failed.class = err, class
	return &failed
}

// NewConflict returns an error of a class with a Conflict.
func NewConflict(class Class, conflict Conflict, format string, args ...any) error {
	failed := failureOf(NewError(class, format, args...))
	failed.conflict = conflict
	return &failed
}

// ClassOf returns the class of an error of this package.
func ClassOf(err error) Class { return failureOf(err).class }

// ConflictOf returns the Conflict of an error. It returns the zero value for an error that has none.
func ConflictOf(err error) Conflict { return failureOf(err).conflict }

// Detail returns the details of an error for the administrator of the operator: the DETAIL of a PostgreSQL error, or
// what responds at an address without a PostgreSQL server. It returns "" if there are none. The text of the error,
// which users see, may omit them.
func Detail(err error) string { return failureOf(err).detail }

// RetryAfter returns how long a caller should wait before it retries after an error of class Busy.
func RetryAfter(err error) time.Duration { return cmp.Or(failureOf(err).after, busyBase) }

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	codeInvalidAuthorization = "28000" // among others: no line in pg_hba.conf, a role that may not log in
	codeInvalidPassword      = "28P01"
	codeReadOnly             = "25006"
	codeTransactionTimeout   = "25P04" // a timeout that a role may set for itself, from PostgreSQL 17 on
	codeStarting             = "57P03"
	codeTooManyConnections   = "53300" // too many to the server, to the database, or as the role
	codeNoSuchDatabase       = "3D000"
	codeNotNow               = "55000" // among others: the database takes no connections
	codeNoPrivilege          = "42501"
	codeStillNeeded          = "2BP01"
	codeFeatureMissing       = "0A000" // among others: no such extension
	codeLocked               = "55P03" // a lock that was not available within lock_timeout
	codeInternal             = "XX000" // among others: a row that another session changed at the same time
	codeUndefinedFile        = "58P01" // no such extension, before PostgreSQL 16
	codeInUse                = "55006"
	codeDeadlock             = "40P01"
)

func classOfCode(code string) Class {
	switch code {
	case codeStarting:
		return Silent
	case codeInUse, codeLocked, codeDeadlock, codeReadOnly: // a read-only server can be a standby, which can be promoted
		return Away
	case codeInvalidPassword, codeInvalidAuthorization:
		return LoginRejected
	case codeNoPrivilege:
		return Denied
	case codeStillNeeded, codeFeatureMissing, codeUndefinedFile, codeNoSuchDatabase, codeNotNow, codeTransactionTimeout:
		return Rejected
	}
	// Codes that begin with 08 are connection exceptions, with 53 insufficient resources, with 57 interventions such as
	// a shutdown.
	if strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57") {
		return Away
	}
	return Other
}

// ofServer reports whether an error concerns the server, so that a login as another role would fail too.
func ofServer(err error) bool {
	return slices.Contains([]Class{Busy, Silent, Forbidden, Untrusted}, ClassOf(err))
}

// acceptsPassword reports whether a server had accepted the password before it reported the error of a login
// (PerformAuthentication in src/backend/utils/init/postinit.c). A server without a free connection reports
// codeTooManyConnections before it checks the password, but then no login works.
//
// A server that cannot read its own files reports codeNoPrivilege or codeUndefinedFile before it checks the password.
// Therefore these codes count only with a function of PostgreSQL that runs later: the check of the privilege CONNECT,
// and the loading of libraries that a role or a database names.
func acceptsPassword(err error) bool {
	failed := failureOf(err)
	switch failed.code {
	case codeTooManyConnections, codeNotNow, codeNoSuchDatabase, codeTransactionTimeout:
		return true
	case codeNoPrivilege, codeUndefinedFile:
		return slices.Contains([]string{"CheckMyDatabase", "check_restricted_library_name", "internal_load_library"},
			failed.routine)
	}
	return false
}

func isCode(err error, code string) bool { return failureOf(err).code == code }

var errBusy = errors.New("other reconciles use all slots for servers that are not known to respond fast")
