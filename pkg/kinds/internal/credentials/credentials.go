// Package credentials defines the connection Secret with which a client connects to a PostgreSQL database. The package
// names the keys of the Secret, builds and parses the Secret, and decides when its login is rotated.
package credentials

import (
	"crypto/rand"
	"encoding/base64"
	"net"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/postgresql"
)

// Keys of a connection Secret. The Secrets of CloudNativePG have the same keys, except sslmode and ca.
const (
	KeyUsername = "username"
	KeyPassword = "password"
	KeyHost     = "host"
	KeyPort     = "port"
	KeyDatabase = "dbname"
	KeyTLSMode  = "sslmode" // one of libpq's values
	KeyCA       = "ca.crt"  // in PEM form; absent if none is known
	// KeyRootCert has RootCertPath if the Secret has a CA.
	KeyRootCert = "sslrootcert"
	KeyURI      = "uri"
	KeyPgpass   = "pgpass"
)

// keys are all keys of a connection Secret.
var keys = append([]string{KeyCA, KeyRootCert, KeyURI, KeyPgpass}, connectionKeys...)

// RootCertDir is the directory in which clients must mount KeyCA of a connection Secret. RootCertPath is the path of
// this file, which uri has as well: node-postgres reads no environment variable with the path.
const (
	RootCertDir  = "/etc/windlass/database"
	RootCertPath = RootCertDir + "/" + KeyCA
)

// Variables are the environment variables that clients read, each with the key of its value. DATABASE_URL is a
// convention; libpq documents the others (https://www.postgresql.org/docs/current/libpq-envars.html). A connection
// Secret without a CA lacks the key of an Optional variable.
var Variables = []struct {
	Name, Key string
	Optional  bool
}{
	{Name: "DATABASE_URL", Key: KeyURI}, {Name: "PGHOST", Key: KeyHost}, {Name: "PGPORT", Key: KeyPort},
	{Name: "PGDATABASE", Key: KeyDatabase}, {Name: "PGUSER", Key: KeyUsername}, {Name: "PGPASSWORD", Key: KeyPassword},
	{Name: "PGSSLMODE", Key: KeyTLSMode}, {Name: "PGSSLROOTCERT", Key: KeyRootCert, Optional: true},
}

// Suffix follows the name of the Database or ExternalDatabase in the name of its connection Secret.
const Suffix = "-credentials"

// Name returns the name of the connection Secret of the Database or ExternalDatabase with the given name.
func Name(database string) string { return database + Suffix }

// randomBytes is the number of random bytes of a password. They are encoded as 32 characters.
const randomBytes = 24

// NewPassword returns a new random password: 32 letters, digits, '-' and '_'.
func NewPassword() string {
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // rand.Read never returns an error, as its documentation says
	return base64.RawURLEncoding.EncodeToString(random)
}

// Secret returns the connection Secret with the settings of a client. An existing Secret keeps its own password: see
// Keep.
func Secret(meta metav1.ObjectMeta, c postgresql.Settings) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{
		KeyUsername: []byte(c.Username), KeyHost: []byte(c.Host), KeyPort: []byte(strconv.Itoa(int(c.Port))),
		KeyDatabase: []byte(c.Database), KeyTLSMode: []byte(c.Mode),
	}}
	if len(c.CA) > 0 {
		s.Data[KeyCA], s.Data[KeyRootCert] = c.CA, []byte(RootCertPath)
	}
	setPassword(s, c.Password)
	return s
}

// setPassword sets the password and the keys that contain it.
func setPassword(s *corev1.Secret, password string) {
	get := func(key string) string { return string(s.Data[key]) }
	s.Data[KeyPassword] = []byte(password)
	parameters := url.Values{KeyTLSMode: {get(KeyTLSMode)}}
	if path := get(KeyRootCert); path != "" {
		parameters.Set(KeyRootCert, path)
	}
	s.Data[KeyURI] = []byte("postgresql://" + url.UserPassword(get(KeyUsername), password).String() +
		"@" + net.JoinHostPort(get(KeyHost), get(KeyPort)) + "/" + url.PathEscape(get(KeyDatabase)) +
		"?" + parameters.Encode())
	fields := []string{get(KeyHost), get(KeyPort), get(KeyDatabase), get(KeyUsername), password}
	for i := range fields {
		fields[i] = strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(fields[i])
	}
	s.Data[KeyPgpass] = []byte(strings.Join(fields, ":") + "\n")
}
