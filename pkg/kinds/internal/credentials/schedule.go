package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	// RotateAnnotation on an object requests a rotation each time its value changes to another value that is not empty. On
	// the connection Secret, RotateAnnotation has the last request that was carried out, as the function Request returns
	// it.
	RotateAnnotation = controller.AnnotationDomain + "/rotate-credentials"
	// RotatedAtAnnotation on the connection Secret is the time of the last rotation, in UTC and the format of RFC 3339.
	RotatedAtAnnotation = controller.AnnotationDomain + "/credentials-rotated-at"
	// DefaultGracePeriod is the default of spec.credentials.gracePeriod.
	DefaultGracePeriod = 10 * time.Minute
)

// maxLogin is the maximum length of the name of a role in PostgreSQL, in bytes.
const maxLogin = 63

// LoginIn returns the login in a connection Secret. If the Secret names neither the owner nor an alternate login,
// LoginIn returns recorded. If recorded is neither the owner nor an alternate login, LoginIn returns the owner. secret
// may be nil.
func LoginIn(secret *corev1.Secret, owner, recorded string) string {
	if secret != nil {
		if login := string(secret.Data[KeyUsername]); isLogin(owner, login) {
			return login
		}
	}
	if isLogin(owner, recorded) {
		return recorded
	}
	return owner
}

func isLogin(owner, login string) bool {
	return login == owner || slices.Contains(Alternates(owner), login)
}

// suffixes are the ends of the names of alternate logins.
var suffixes = []string{"-login1", "-login2"}

// Alternates returns the names of the two alternate logins: the owner followed by -login1 and -login2. From the first
// rotation on, each rotation changes from one of them to the other. Alternates shortens the owner at the boundary of a
// character, so that a name has at most 63 bytes. Alternate logins are members of the owner, and act as the owner. They
// can change the password of the owner, but not the password of each other, so the owner never becomes the login again.
func Alternates(owner string) []string {
	names := make([]string, 0, len(suffixes))
	for _, suffix := range suffixes {
		name := prefix(owner, maxLogin-len(suffix)) + suffix
		if name == owner {
			name = prefix(owner, maxLogin-len(suffix)-1) + suffix
		}
		names = append(names, name)
	}
	return names
}

// prefix returns the start of a name with at most the given number of bytes. It ends at the boundary of a character.
func prefix(name string, end int) string { return strings.ToValidUTF8(name[:min(len(name), end)], "") }

// Next returns the login that follows login in a rotation. Before the first rotation, the owner is the login.
func Next(owner, login string) string {
	alternates := Alternates(owner)
	if login == alternates[0] {
		return alternates[1]
	}
	return alternates[0]
}

// Schedule says when credentials are rotated.
type Schedule struct {
	// Every is the time between two rotations. Zero means that only Request requests a rotation.
	Every time.Duration
	// Grace is the minimum time for which the previous login works after a rotation.
	Grace time.Duration
	// Request is the request of RotateAnnotation, as the function Request returns it. Empty means no request.
	Request string
}

// ScheduleOf returns the Schedule of a Database or an ExternalDatabase.
func ScheduleOf(object metav1.Object) Schedule {
	s := Schedule{Grace: DefaultGracePeriod, Request: Request(object.GetAnnotations()[RotateAnnotation])}
	var spec *v1alpha1.CredentialsSpec
	switch db := object.(type) {
	case *v1alpha1.Database:
		spec = db.Spec.Credentials
	case *v1alpha1.ExternalDatabase:
		spec = db.Spec.Credentials
	}
	if spec != nil && spec.RotateEvery != nil {
		s.Every = spec.RotateEvery.Duration
	}
	if spec != nil && spec.GracePeriod != nil {
		s.Grace = spec.GracePeriod.Duration
	}
	return s
}

const (
	// maxRequest is the length up to which a Secret records the value of RotateAnnotation itself, in bytes.
	maxRequest = 63
	// digestPrefix is the beginning of a recorded digest.
	digestPrefix = "sha256:"
)

// Request returns the text that records a value of RotateAnnotation: the value or, if it has more than 63 bytes, its
// SHA-256 digest.
func Request(value string) string {
	if len(value) <= maxRequest {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// maxSkew is how far in the future the time of the last rotation may be. It allows for a clock that was set back, and
// for the clocks of two replicas.
const maxSkew = time.Hour

// Record is what a connection Secret says about its last rotation.
type Record struct {
	// Created is when the Secret was created.
	Created time.Time
	// Rotated is when the last rotation was. It is zero if there was none.
	Rotated time.Time
	// Request is the last request that was carried out.
	Request string
}

// RecordOf returns the Record in a connection Secret. A time of the last rotation that cannot be parsed, or that is
// more than an hour after now, counts as now. The previous login then keeps its grace period, and the next rotation
// does not begin early. Keep stores this time, so that later reconciles read the same time.
func RecordOf(secret *corev1.Secret, now time.Time) Record {
	r := Record{Created: secret.CreationTimestamp.Time, Request: secret.Annotations[RotateAnnotation]}
	if len(r.Request) > len(digestPrefix)+hex.EncodedLen(sha256.Size) {
		r.Request = Request(r.Request) // a user has edited it, and a long value could exceed the size limits
	}
	if secret.Annotations[RotatedAtAnnotation] == "" {
		return r
	}
	at, err := RotatedAt(secret)
	if err != nil || at.After(now.Add(maxSkew)) {
		at = now.Truncate(time.Second)
	}
	r.Rotated = at
	return r
}

// RotatedAt returns the time in RotatedAtAnnotation. It returns an error if the annotation is missing, or is not a
// time.
func RotatedAt(secret *corev1.Secret) (time.Time, error) {
	return time.Parse(time.RFC3339, secret.Annotations[RotatedAtAnnotation])
}

// Next returns when the next rotation is due. ok is false if only a request causes rotations.
func (s Schedule) Next(r Record) (at time.Time, ok bool) {
	from := r.Rotated
	if from.IsZero() {
		from = r.Created
	}
	return from.Add(s.Every), s.Every > 0
}

// Due reports whether a rotation is due.
func (s Schedule) Due(r Record, now time.Time) bool {
	if s.Request != "" && s.Request != r.Request {
		return true
	}
	at, ok := s.Next(r)
	return ok && !now.Before(at)
}

// Retires returns when the grace period of the previous login ends. It returns the zero time if there was no rotation.
func (s Schedule) Retires(r Record) time.Time {
	if r.Rotated.IsZero() {
		return time.Time{}
	}
	return r.Rotated.Add(s.Grace)
}

// usersRecheck is the shortest time between two checks of the users of a previous login.
const usersRecheck = 5 * time.Second

// UsersRecheck returns the time until the next check of the users of a previous login: a tenth of the time since the
// end of the grace period, but at least 5 seconds and at most longest. An App whose rollout does not finish therefore
// causes few reconciles.
func (s Schedule) UsersRecheck(r Record, now time.Time, longest time.Duration) time.Duration {
	ended := s.Retires(r)
	if ended.IsZero() {
		ended = r.Created
	}
	return min(max(now.Sub(ended)/10, usersRecheck), longest)
}

// Users is a function that returns the names of the objects that still use a previous content of a connection Secret,
// for example "App web". If the users are not known yet, the function returns what it waits for. It returns nothing if
// no known object uses a previous content.
type Users func(secret *corev1.Secret) []string
