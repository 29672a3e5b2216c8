package postgresql

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Class is what kind of trouble an error is, by which callers decide what to do.
type Class int

// Classes of errors.
const (
	// Other: anything else, a connection that was lost in the middle among it. To be
	// tried again.
	Other Class = iota
	// Busy: another caller is finding out whether the server answers. To be tried again
	// in a moment, without a word.
	Busy
	// Away: the server cannot be reached, does not answer, is starting, is full, or has
	// what is wanted in use.
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
	return [...]string{"Other", "Busy", "Away", "Forbidden", "Untrusted", "Refused", "Denied", "Taken", "Replaced", "Rejected"}[c]
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
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classOfCode(pg.Code)
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

// classOfConnect sorts the error of an attempt to connect. What is neither the server's
// word, nor about trust, nor the network's, is about the login: the server asks for
// something that it does not get, or does not know the password itself.
func classOfConnect(err error) Class {
	var (
		known       *classified
		pg          *pgconn.PgError
		certificate *tls.CertificateVerificationError
		header      tls.RecordHeaderError
		network     net.Error
		operation   *net.OpError
	)
	switch {
	case errors.As(err, &known):
		return known.class
	case errors.As(err, &pg):
		return classOfCode(pg.Code)
	case errors.As(err, &certificate), errors.As(err, &header), strings.Contains(err.Error(), "server refused TLS connection"):
		return Untrusted
	case errors.As(err, &operation) && operation.Op == "remote error": // a TLS alert
		return Untrusted
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Away
	}
	return Refused
}

// locksOut tells whether a login failed for what an administrator can mend: the role,
// its password, the database, or the right to connect to it.
func locksOut(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{
		codeInvalidAuthorization, codeInvalidPassword, codeNoSuchDatabase, codeNotNow, codeNoPrivilege, codeTransactionTimeout,
	}, pg.Code)
}

// isSilent tells whether an error is that of a server that did not answer: it is not the
// server's word, but for that it is starting.
func isSilent(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == codeStarting
	}
	return err != nil && ClassOf(err) == Away
}

// causeOf is what the server or the network says in an error, without who asked: others
// are told too.
func causeOf(err error) string {
	var (
		pg    *pgconn.PgError
		plain *plainError
	)
	switch {
	case errors.As(err, &pg):
		return pg.Message
	case errors.As(err, &plain):
		return plain.said
	}
	return "it gave none in time"
}

// plainError is an error of the network, and what it says without what differs from one
// attempt to the next.
type plainError struct {
	err  error
	said string
}

func (e *plainError) Error() string { return e.said }
func (e *plainError) Unwrap() error { return e.err }

// plain is an error of an attempt to connect without what is said already, and without
// the ports that the attempt used: they would make its error differ from the next one's.
func plain(err error) error {
	var (
		attempt   *pgconn.ConnectError
		operation *net.OpError
		name      *net.DNSError
	)
	if errors.As(err, &attempt) {
		err = attempt.Unwrap()
	}
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return &plainError{err, "lookup " + name.Name + ": no such host"}
	case errors.As(err, &name) && name.IsTimeout:
		return &plainError{err, "lookup " + name.Name + ": no answer in time"}
	case errors.As(err, &name):
		return &plainError{err, "lookup " + name.Name + ": the name server could not be asked"}
	case errors.As(err, &operation) && operation.Source != nil:
		return &plainError{err, strings.ReplaceAll(err.Error(), operation.Source.String()+"->", "")}
	case errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &plainError{err, err.Error()}
	}
	return err
}

func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
