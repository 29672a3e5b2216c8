package postgresql

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is what kind of trouble an error is, by which callers decide what to do.
type Class int

// Classes of errors.
const (
	// Other: anything else, a connection that was lost in the middle among it. To be
	// tried again.
	Other Class = iota
	// Busy: others are finding out whether the server, or another one, answers. To be
	// tried again after RetryAfter, without a word.
	Busy
	// Silent: nobody answers, or nobody who speaks as a PostgreSQL server does; or the
	// server is starting, or stopped answering.
	Silent
	// Away: the server is stopping, is full, or has what is wanted in use.
	Away
	// Forbidden: AllowedHosts do not have the server.
	Forbidden
	// Untrusted: the server does not show that it is who it shall be, or has no TLS.
	Untrusted
	// Refused: the server does not take the login.
	Refused
	// Denied: the role lacks a right.
	Denied
	// Taken: a role or database of the name is not ours.
	Taken
	// Replaced: the server, or the database on it, is another one than it was.
	Replaced
	// Rejected: the server cannot do what is wanted: an extension that it does not have,
	// a role that is still needed elsewhere.
	Rejected
)

// String is a word for the class.
func (c Class) String() string {
	return [...]string{"Other", "Busy", "Silent", "Away", "Forbidden", "Untrusted", "Refused", "Denied", "Taken", "Replaced", "Rejected"}[c]
}

// classified is an error whose class is known where it is made.
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

// ClassOf sorts an error of this package.
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

// Codes of errors (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	codeInvalidAuthorization = "28000" // among others: no line in pg_hba.conf, a role that may not log in
	codeInvalidPassword      = "28P01"
	codeReadOnly             = "25006"
	codeTransactionTimeout   = "25P04" // which a role may set for itself, from PostgreSQL 17 on
	codeStarting             = "57P03"
	codeNoSuchDatabase       = "3D000"
	codeNotNow               = "55000" // among others: the database takes no connections
	codeNoPrivilege          = "42501"
	codeStillNeeded          = "2BP01"
	codeFeatureMissing       = "0A000" // among others: no such extension
	codeUndefinedFile        = "58P01" // the same, before PostgreSQL 16
)

// inUse are: an object in use, a lock not available, a deadlock.
var inUse = []string{"55006", "55P03", "40P01"}

func classOfCode(code string) Class {
	switch {
	case code == codeStarting:
		return Silent
	// Connection exception, insufficient resources, operator intervention (starting and
	// stopping among it), a standby, which may become more, and what others hold.
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

// locksOut tells whether a login failed for what an administrator can mend: the role,
// its password, the database, or the right to connect to it.
func locksOut(err error) bool {
	return slices.Contains([]string{
		codeInvalidAuthorization, codeInvalidPassword, codeNoSuchDatabase, codeNotNow, codeNoPrivilege, codeTransactionTimeout,
	}, codeOf(err))
}

func isSilent(err error) bool { return err != nil && ClassOf(err) == Silent }

func isCode(err error, code string) bool { return codeOf(err) == code }

// codeOf is the code of an error that the server reported, or empty.
func codeOf(err error) string {
	var said *foreign
	if errors.As(err, &said) {
		return said.code
	}
	return ""
}

// RetryAfter is when to try again what was Busy.
func RetryAfter(err error) time.Duration {
	var busy *busyError
	if errors.As(err, &busy) {
		return busy.after
	}
	return busyBase
}

// busyError is of class Busy.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string {
	return "others are at the server, or at servers of which as little is known"
}
