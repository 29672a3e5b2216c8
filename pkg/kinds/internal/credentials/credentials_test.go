package credentials_test

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

func TestNewPasswordIsUnique(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		password := credentials.NewPassword()
		if len(password) != 32 ||
			strings.Trim(password, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || seen[password] {
			t.Fatalf("%q is not a new password of 32 characters", password)
		}
		seen[password] = true
	}
}

// FuzzConnection parses the keys of a Secret that contain the connection.
func FuzzConnection(f *testing.F) {
	for _, text := range []string{"app", `a"b'c`, `a:b\c`, "a/b?c#d@e", "ä %41", "$(HOME)", "::", `\`} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, owner, database, password string) {
		s := credentials.Secret(metav1.ObjectMeta{Name: "shop"}, postgresql.Settings{
			Username: owner, Password: password, Host: "2001:db8::1", Port: 5432, Database: database,
			Mode: postgresql.VerifyFull,
		})
		read, err := url.Parse(string(s.Data[credentials.KeyURI]))
		if err != nil {
			t.Fatalf("the uri is none: %v", err)
		}
		got, _ := read.User.Password()
		controllertest.Equal(t, "of the uri", []string{
			owner, password, "[2001:db8::1]:5432", "/" + database, "sslmode=verify-full",
		},
			[]string{read.User.Username(), got, read.Host, read.Path, read.RawQuery})
		controllertest.Equal(t, "of pgpass", []string{
			"2001:db8::1", "5432", database, owner, password,
		}, pgpassFields(string(s.Data[credentials.KeyPgpass])))
	})
}

// pgpassFields parses a line as libpq does.
func pgpassFields(line string) []string {
	fields, escaped := []string{""}, false
	for _, c := range []byte(strings.TrimSuffix(line, "\n")) {
		last := &fields[len(fields)-1]
		switch {
		case escaped:
			*last, escaped = *last+string([]byte{c}), false
		case c == '\\':
			escaped = true
		case c == ':':
			fields = append(fields, "")
		default:
			*last += string([]byte{c})
		}
	}
	return fields
}

func TestParseReadsGeneratedSecret(t *testing.T) {
	want := postgresql.Settings{
		Host: "2001:db8::1", Port: 6432, Username: "a b", Password: credentials.NewPassword(), Database: "x/y",
		Mode: postgresql.Require,
	}
	s := credentials.Secret(metav1.ObjectMeta{Name: "shop"}, want)
	for name, keys := range map[string][]string{
		"by its uri": {credentials.KeyURI},
		"by its other keys": {
			credentials.KeyHost, credentials.KeyPort, credentials.KeyUsername, credentials.KeyPassword,
			credentials.KeyDatabase, credentials.KeyTLSMode,
		},
	} {
		data := map[string][]byte{}
		for _, key := range keys {
			data[key] = s.Data[key]
		}
		got, err := credentials.Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		controllertest.Equal(t, name, want, got)
	}
}
