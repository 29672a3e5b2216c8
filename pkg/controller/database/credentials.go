package database

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// Keys of the Secret: those that users of CloudNativePG know.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyHost     = "host"
	keyPort     = "port"
	keyDatabase = "dbname"
	keyURI      = "uri"
	keyPgpass   = "pgpass"
)

// randomBytes become a password of 32 characters.
const randomBytes = 24

// newPassword is a password that was never used: 32 letters, digits, '-' and '_'.
func newPassword() string {
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // it never fails, says its documentation
	return base64.RawURLEncoding.EncodeToString(random)
}

// secretName is that of the Secret to connect with.
func secretName(db *v1alpha1.Database) string { return db.Name + "-credentials" }

// desiredSecret has a password that holds only if there is none yet.
func desiredSecret(db *v1alpha1.Database, password string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metaOf(db), Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{
		keyUsername: []byte(db.Spec.Owner),
		keyHost:     []byte(db.Name + "." + db.Namespace + ".svc"),
		keyPort:     []byte(strconv.Itoa(port)),
		keyDatabase: []byte(db.Spec.DatabaseName),
	}}
	s.Name = secretName(db)
	setPassword(s, password)
	return s
}

// keepPassword takes over the password of a Secret that is there, whoever has set it.
func keepPassword(want, live *corev1.Secret) {
	if password := live.Data[keyPassword]; len(password) > 0 {
		setPassword(want, string(password))
	}
}

// setPassword sets the password and all that is made of it.
func setPassword(s *corev1.Secret, password string) {
	get := func(key string) string { return string(s.Data[key]) }
	s.Data[keyPassword] = []byte(password)
	s.Data[keyURI] = []byte("postgresql://" + url.UserPassword(get(keyUsername), password).String() +
		"@" + get(keyHost) + ":" + get(keyPort) + "/" + url.PathEscape(get(keyDatabase)))
	fields := []string{get(keyHost), get(keyPort), get(keyDatabase), get(keyUsername), password}
	for i := range fields {
		fields[i] = strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(fields[i])
	}
	s.Data[keyPgpass] = []byte(strings.Join(fields, ":") + "\n")
}

// checkPassword returns a Terminal error for a password that the start script does not
// take: a line break would end it there.
func checkPassword(s *corev1.Secret) error {
	if !slices.ContainsFunc(s.Data[keyPassword], func(c byte) bool { return c < ' ' || c == 0x7f }) {
		return nil
	}
	return controller.Terminal(controller.WithReason(reasonInvalidPassword, fmt.Errorf(
		"PostgreSQL keeps the password that it has: the one in Secret %s has a line break or another control character; change it, or delete the Secret for a new one", s.Name)))
}

// passwordDigest tells one password from another. It is keyed with the Secret's UID,
// which is told to nobody who may not read the Secret, so that the password cannot be
// guessed at by those who can read Pods.
func passwordDigest(s *corev1.Secret) string {
	hash := hmac.New(sha256.New, []byte(s.UID))
	hash.Write(s.Data[keyPassword])
	return hex.EncodeToString(hash.Sum(nil))[:digestLength]
}

const digestLength = 16
