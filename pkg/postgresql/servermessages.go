package postgresql

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
)

// maxText limits how many bytes of a server's message are kept.
const maxText = 1 << 10

// hearing converts errors of a server to text that users may see.
type hearing struct {
	// hidden are the words to remove: the values of a connection Secret, which a server can repeat in its
	// errors.
	hidden []string
	// told is true if users may learn what responds at the address, even if it is not a PostgreSQL server.
	told bool
	// mode is the TLS mode of the connection.
	mode TLSMode
}

// words returns a server's message as one line of at most maxText bytes, without the hidden words.
func (h hearing) words(said string) string {
	said = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(said, " "))
	hidden := slices.SortedFunc(slices.Values(h.hidden), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, word := range hidden {
		said = hide(said, word)
	}
	if len(said) <= maxText {
		return said
	}
	const more = "…"
	return strings.ToValidUTF8(said[:maxText-len(more)], "") + more
}

// hide replaces a word in a text. It replaces a word of fewer than four bytes only where it stands alone.
func hide(text, word string) string {
	const instead, short, twice = "(hidden)", 4, 2
	switch {
	case word == "" || !utf8.ValidString(word): // no text contains invalid UTF-8
		return text
	case len(word) >= short:
		return strings.ReplaceAll(text, word, instead)
	}
	alone := regexp.MustCompile(`(^|[^\p{L}\p{Nd}])` + regexp.QuoteMeta(word) + `([^\p{L}\p{Nd}]|$)`)
	for range twice { // one pass does not match both of two words with one character between them
		text = alone.ReplaceAllString(text, "${1}"+instead+"${2}")
	}
	return text
}

// reported converts an error that a server reported to a failure. Only the DETAIL of a role that cannot be dropped is
// part of the text: it says what depends on the role.
func (h hearing) reported(pg *pgconn.PgError) error {
	code, said := pg.Code, pg.Message
	if !sqlState.MatchString(code) {
		code = codeInternal
	}
	if code == codeStillNeeded && pg.Detail != "" {
		said += ": " + strings.ReplaceAll(pg.Detail, "\n", "; ")
	}
	text := fmt.Errorf("%s (SQLSTATE %s)", h.words(said), code)
	return &failure{error: text, class: classOfCode(code), code: code, routine: pg.Routine, detail: h.words(pg.Detail)}
}

var sqlState = regexp.MustCompile(`^[0-9A-Za-z]{5}$`)

// also returns an error with a detail for the administrator of the operator. If told is true, users see the detail too.
func (h hearing) also(class Class, text, detail string) error {
	detail = h.words(detail)
	if h.told && detail != "" {
		text += ": " + detail
	}
	return &failure{error: errors.New(text), class: class, detail: detail}
}

// answer converts the error of a statement. limit is the timeout of the statement.
func (h hearing) answer(ctx context.Context, err error, limit time.Duration) error {
	var (
		pg    *pgconn.PgError
		known *failure
	)
	switch {
	case errors.As(err, &pg):
		return h.reported(pg)
	case errors.As(context.Cause(ctx), &known): // the gate ended the visit with this error
		return known
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return NewError(Silent, "the server did not respond within %s", limit)
	}
	return h.also(Other, "the connection to the server was lost", causeOf(err))
}

// login converts the error of a login. It keeps an error that already has a class. If a PostgreSQL server reported the
// error, or if the error is about trust or credentials, the text describes the error. All other errors have the same
// text unless told is true, so that users do not learn what responds at the address. Only their details differ.
func (h hearing) login(ctx context.Context, err error, by *limited) error {
	var (
		pg          *pgconn.PgError
		known       *failure
		certificate *tls.CertificateVerificationError
		operation   *net.OpError
		network     net.Error
	)
	cause := causeOf(err)
	failed := func(step string) bool { return strings.Contains(err.Error(), step) }
	switch {
	case errors.As(err, &pg):
		return h.reported(pg)
	case errors.As(context.Cause(ctx), &known): // the gate ended the visit with this error
		return known
	case errors.As(err, &known):
		return known
	case errors.As(err, &certificate):
		return h.also(Untrusted, flaw(certificate), cause)
	case failed("server refused TLS connection") && by != nil && by.first == 'N':
		return NewError(Untrusted, "the server does not support TLS")
	case h.told && errors.As(err, &operation) && operation.Op == "remote error": // a TLS alert
		return h.also(Untrusted, "the server aborted the TLS handshake", cause)
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errTooMuch):
	case failed("require_auth check failed"):
		return h.method(err, cause)
	case failed("failed SASL auth"), failed("failed GSS auth"):
		return h.also(LoginRejected, unsupported, cause)
	}
	return h.also(Silent, "no PostgreSQL server responds", cause)
}

const unsupported = "the server requires an authentication method that the operator does not support, " +
	"or did not prove that it knows the password"

// revealing maps each method of libpq's require_auth that reveals the password, or a hash of it, to what the method
// asks for.
var revealing = map[string]string{"password": "the password in cleartext", "md5": "an MD5 hash of the password"}

// method converts the error of a login with an authentication method that config.RequireAuth does not allow.
func (h hearing) method(err error, cause string) error {
	for method, what := range revealing {
		if strings.Contains(err.Error(), "server requested "+method+" authentication") {
			return NewError(Unverified, "the server asks for %s, but sslmode %s does not verify the server", what, h.mode)
		}
	}
	return h.also(LoginRejected, unsupported, cause)
}

// flaw describes why a certificate was rejected, without quoting the certificate.
func flaw(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "the certificate of the server is not signed by a trusted authority"
	case errors.As(err, &name):
		return "the certificate of the server is for another host name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate of the server has expired, or is not valid yet"
	}
	return "the certificate of the server is not valid"
}

// causeOf returns the message of an error of the network or of crypto/tls. It removes addresses and ports,
// which are secret or differ between attempts.
func causeOf(err error) string {
	var (
		attempt   *pgconn.ConnectError
		name      *net.DNSError
		operation *net.OpError
		number    syscall.Errno
		inner     = err
	)
	if errors.As(err, &attempt) {
		inner = attempt.Unwrap()
	}
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "the host name was not found"
	case errors.As(err, &name) && name.IsTimeout:
		return "the lookup of the host name timed out"
	case errors.As(err, &name):
		return "the lookup of the host name failed"
	case errors.As(err, &operation) && operation.Timeout(), pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		return "the attempt timed out"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE): // the timing decides which of the two occurs
		return "the connection was reset"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &operation) && operation.Err != nil:
		return operation.Err.Error()
	}
	// A message of pgconn begins with the address, and the host name in parentheses.
	text := inner.Error()
	if _, rest, found := strings.Cut(text, "): "); found {
		text = rest
	}
	return text
}
