package postgresql

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is the kind of an error. Callers use it to decide what to do.
type Class int

// Classes of errors.
const (
	// Other: any other error, such as a lost connection. Retry.
	Other Class = iota
	// Busy: other callers use this server, or all slots for slow servers. Retry after RetryAfter, and do not
	// report the error to users.
	Busy
	// Silent: no PostgreSQL server responds, or the server is starting, or it stopped responding.
	Silent
	// Away: the server cannot execute the request now. For example, it is stopping, is a standby, or accepts
	// no more connections, or another session uses the role or the database.
	Away
	// Forbidden: AllowedHosts does not allow the server.
	Forbidden
	// Untrusted: the server cannot be verified, or has no TLS.
	Untrusted
	// Unverified: the server asks for the password, or for a hash of it, and is not verified.
	Unverified
	// Refused: the server refuses the login.
	Refused
	// Denied: the administrator lacks a privilege or an attribute.
	Denied
	// Uninherited: the administrator has the attribute NOINHERIT.
	Uninherited
	// Unlisted: the owner may not create an extension, and UntrustedExtensions does not list it.
	Unlisted
	// Taken: a role or database with the desired name exists and is not ours: see ConflictOf.
	Taken
	// Protected: the role with the desired name is an administrator or a role of the server itself: see ConflictOf.
	Protected
	// Kept: the owner was handed over, and does not accept the password. The operator does not change its password.
	Kept
	// Unproven: the server accepts the new password of a login, which cannot use the database now.
	Unproven
	// Replaced: the server, or the database on it, was replaced by another one.
	Replaced
	// Rejected: the server cannot reach the desired state, for example because it lacks an extension, or
	// because other objects depend on the role.
	Rejected
)

// String returns the name of the class.
func (c Class) String() string {
	return [...]string{
		"Other", "Busy", "Silent", "Away", "Forbidden", "Untrusted", "Unverified", "Refused", "Denied", "Uninherited",
		"Unlisted", "Taken", "Protected", "Kept", "Unproven", "Replaced", "Rejected",
	}[c]
}

// classified is an error with a class.
type classified struct {
	class Class
	err   error
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// NewError returns an error of a class.
func NewError(class Class, format string, args ...any) error {
	return &classified{class, fmt.Errorf(format, args...)}
}

// ClassOf returns the class of an error of this package.
func ClassOf(err error) Class {
	var known *classified
	if errors.As(err, &known) {
		return known.class
	}
	var said *foreign
	if errors.As(err, &said) {
		return said.class
	}
	return Other
}

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	codeInvalidAuthorization = "28000" // among others: no line in pg_hba.conf, a role that may not log in
	codeInvalidPassword      = "28P01"
	codeReadOnly             = "25006"
	codeTransactionTimeout   = "25P04" // a timeout that a role may set for itself, from PostgreSQL 17 on
	codeStarting             = "57P03"
	codeTooManyConnections   = "53300" // to the server, to the database, or of the role
	codeNoSuchDatabase       = "3D000"
	codeNotNow               = "55000" // among others: the database takes no connections
	codeNoPrivilege          = "42501"
	codeStillNeeded          = "2BP01"
	codeFeatureMissing       = "0A000" // among others: no such extension
	codeLocked               = "55P03" // a lock that was not available within lock_timeout
	codeInternal             = "XX000" // among others: a row that another session changed at the same time
	codeUndefinedFile        = "58P01" // no such extension, before PostgreSQL 16
)

// inUse lists the codes for an object in use, a lock that is not available, and a deadlock.
var inUse = []string{"55006", codeLocked, "40P01"}

func classOfCode(code string) Class {
	switch {
	case code == codeStarting:
		return Silent
	// Codes that begin with 08 are connection exceptions, with 53 insufficient resources, with 57
	// interventions such as a shutdown. A read-only server can be a standby, which can be promoted.
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57"), code == codeReadOnly, slices.Contains(inUse, code):
		return Away
	case code == codeInvalidPassword || code == codeInvalidAuthorization:
		return Refused
	case code == codeNoPrivilege:
		return Denied
	case slices.Contains([]string{codeStillNeeded, codeFeatureMissing, codeUndefinedFile, codeNoSuchDatabase, codeNotNow, codeTransactionTimeout}, code):
		return Rejected
	}
	return Other
}

// ofServer reports whether an error concerns the server, whichever role logs in.
func ofServer(err error) bool {
	return slices.Contains([]Class{Busy, Silent, Forbidden, Untrusted}, ClassOf(err))
}

// acceptsPassword reports whether a server reported the error of a login after it had checked the password
// (PerformAuthentication in src/backend/utils/init/postinit.c). Only a server without any free connection reports
// codeTooManyConnections before: then no login works.
func acceptsPassword(err error) bool {
	return slices.Contains([]string{
		codeTooManyConnections, codeNotNow, codeNoPrivilege, codeNoSuchDatabase, codeTransactionTimeout, codeUndefinedFile,
	}, codeOf(err))
}

func isSilent(err error) bool { return err != nil && ClassOf(err) == Silent }

func isCode(err error, code string) bool { return codeOf(err) == code }

// codeOf returns the SQLSTATE code of an error that the server reported, or "".
func codeOf(err error) string {
	var said *foreign
	if errors.As(err, &said) {
		return said.code
	}
	return ""
}

// RetryAfter returns how long a caller should wait before it retries after an error of class Busy.
func RetryAfter(err error) time.Duration {
	var busy *busyError
	if errors.As(err, &busy) {
		return busy.after
	}
	return busyBase
}

// busyError says when to retry. Errors of class Busy wrap it.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string {
	return "other reconciles use the server, or all slots for servers that are not known to respond fast"
}
