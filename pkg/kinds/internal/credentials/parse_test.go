package credentials_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// Errors of Parse.
const (
	oneHost = "host must be a single DNS name or IP address; lists of hosts and sockets are not supported"
	uriForm = "uri must have the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters " +
		"encoded as %XX"
	parameter = "uri has an unsupported query parameter: use only sslmode, application_name, channel_binding and " +
		"connect_timeout, and the key ca.crt instead of sslrootcert"
	control = " contains a control character, such as a line break at its end, or is not valid UTF-8"
)

func TestParse(t *testing.T) {
	host := func(more map[string]string) map[string]string {
		data := map[string]string{"host": "db.example.com", "username": "admin", "password": "secret"}
		for key, value := range more {
			data[key] = value
		}
		return data
	}
	plain := postgresql.Settings{
		Host: "db.example.com", Port: 5432, Username: "admin", Password: "secret", Database: "postgres",
		Mode: postgresql.VerifyFull,
	}
	but := func(change func(*postgresql.Settings)) postgresql.Settings {
		s := plain
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		data map[string]string
		want postgresql.Settings
		err  string
	}{
		"a host": {data: host(nil), want: plain},
		"all keys": {
			data: host(map[string]string{"port": "6432", "dbname": "x", "sslmode": "require"}),
			want: but(func(s *postgresql.Settings) {
				s.Port = 6432
				s.Database = "x"
				s.Mode = postgresql.Require
			}),
		},
		"a uri": {data: map[string]string{"uri": "postgresql://admin:secret@db.example.com"}, want: plain},
		"a uri that says all": {
			data: map[string]string{
				"uri": "postgres://adm%20in:s%2Fe%3Ac@db.example.com:6432/x%2Fy" +
					"?sslmode=disable&application_name=a&connect_timeout=1",
			}, want: postgresql.Settings{
				Host: "db.example.com", Port: 6432, Username: "adm in", Password: "s/e:c", Database: "x/y",
				Mode: postgresql.Disable,
			},
		},
		"IPv6": {
			data: map[string]string{
				"uri": "postgresql://admin:secret@[2001:db8::1]:6432",
			}, want: but(func(s *postgresql.Settings) {
				s.Host = "2001:db8::1"
				s.Port = 6432
			}),
		},
		"no password": {
			data: map[string]string{"host": "db.example.com", "username": "admin"},
			want: but(func(s *postgresql.Settings) { s.Password = "" }),
		},
		"nothing":        {err: "neither uri nor host is set"},
		"no username":    {data: map[string]string{"host": "x"}, err: "username is missing"},
		"another scheme": {data: map[string]string{"uri": "mysql://admin:secret@x"}, err: uriForm},
		"a broken uri":   {data: map[string]string{"uri": "postgresql://admin:sec%ret@x"}, err: uriForm},
		"libpq's words":  {data: map[string]string{"uri": "host=x password=secret"}, err: uriForm},
		"a file":         {data: map[string]string{"uri": "postgresql://a@x?passfile=/etc/passwd"}, err: parameter},
		"a service":      {data: map[string]string{"uri": "postgresql://a@x?service=x"}, err: parameter},
		"broken parameters": {
			data: map[string]string{"uri": "postgresql://a@x?%zz=secret"}, err: "the query parameters of uri cannot " +
				"be parsed; write them as ?NAME=VALUE&NAME=VALUE, with special characters encoded as %XX",
		},
		"port 0":          {data: host(map[string]string{"port": "0"}), err: "port must be a number from 1 to 65535"},
		"a port too high": {data: host(map[string]string{"port": "65536"}), err: "port must be a number from 1 to 65535"},
		"a line break":    {data: host(map[string]string{"password": "secret\n"}), err: "password" + control},
		"a line break in a uri": {
			data: map[string]string{"uri": "postgresql://admin:secret@db.example.com\n"}, err: "uri" + control,
		},
		"a NUL in a uri": {data: map[string]string{"uri": "postgresql://a:b%00c@x"}, err: "password" + control},
		"not in UTF-8":   {data: host(map[string]string{"username": "a\xff"}), err: "username" + control},
		"a zone":         {data: host(map[string]string{"host": "::ffff:127.0.0.1%.db.example.com"}), err: oneHost},
		"a zone in a uri": {
			data: map[string]string{"uri": "postgresql://a@[::ffff:127.0.0.1%25.db.example.com]"}, err: oneHost,
		},
		"a host with a space": {data: host(map[string]string{"host": "a b"}), err: oneHost},
		"a password with a #": {data: map[string]string{"uri": "postgresql://admin:8675309#pa@db"}, err: uriForm},
		"a password with a /": {
			data: host(map[string]string{"uri": "postgresql://admin:1234/pa@db"}), err: "username is missing",
		},
		"a socket":               {data: host(map[string]string{"host": "/run"}), err: oneHost},
		"a part of a password":   {data: map[string]string{"uri": "postgresql://a:12?secret@x"}, err: parameter},
		"a socket in a uri":      {data: map[string]string{"uri": "postgresql://a@%2Frun"}, err: uriForm},
		"an abstract socket":     {data: host(map[string]string{"host": "@run"}), err: oneHost},
		"several hosts":          {data: host(map[string]string{"host": "a,b"}), err: oneHost},
		"several hosts in a uri": {data: map[string]string{"uri": "postgresql://a@b,c"}, err: oneHost},
		"a long database": {
			data: host(map[string]string{"dbname": strings.Repeat("x", 64)}), err: "username and dbname must have at " +
				"most 63 bytes",
		},
		"a mode that may do without": {
			data: host(map[string]string{"sslmode": "prefer"}), err: "sslmode must be verify-full, verify-ca, " +
				"require or disable",
		},
		"a long password": {
			data: host(map[string]string{"password": strings.Repeat("x", 4097)}), err: "password has more than 4096 bytes",
		},
		"a long uri": {
			data: map[string]string{"uri": "postgresql://a@x/" + strings.Repeat("x", 4096)}, err: "uri has more than 4096 bytes",
		},
		"a long CA": {
			data: host(map[string]string{"ca.crt": strings.Repeat("x", 192<<10+1)}),
			err: "ca.crt has more than 192 KiB: keep only the certificates of the authority that signed the certificate " +
				"of the server",
		},
		"a CA that is none": {
			data: host(map[string]string{"ca.crt": "secret"}), err: "ca.crt contains no certificate in PEM form",
		},
		"verify-ca without a CA": {
			data: host(map[string]string{"sslmode": "verify-ca"}),
			err: "sslmode verify-ca requires ca.crt: set ca.crt to the certificate of the authority that signed the " +
				"certificate of the server, or set sslmode to verify-full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range c.data {
				data[key] = []byte(value)
			}
			got, err := credentials.Parse(data)
			if err != nil {
				if err.Error() != c.err {
					t.Errorf("wanted %q, got %v", c.err, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || c.err != "" {
				t.Errorf("wanted error %q; settings (-wanted +got):\n%s", c.err, diff)
			}
		})
	}
}

// TestParseRejectsURIThatOtherKeysComplete has Secrets whose keys describe two connections. Such a Secret can result
// from an apply with other keys than the stored Secret has.
func TestParseRejectsURIThatOtherKeysComplete(t *testing.T) {
	stored := map[string]string{"host": "db.example.com", "username": "admin", "password": "secret"}
	const same = "postgresql://admin:secret@db.example.com"
	for name, c := range map[string]struct {
		data map[string]string
		key  string // the key that disagrees with uri; empty for none
	}{
		"the same connection":     {map[string]string{"uri": same}, ""},
		"a default port":          {map[string]string{"uri": same, "port": "5432"}, ""},
		"a default database":      {map[string]string{"uri": same, "dbname": "postgres"}, ""},
		"the default sslmode":     {map[string]string{"uri": same, "sslmode": "verify-full"}, ""},
		"no password in uri":      {map[string]string{"uri": "postgresql://admin@db.example.com"}, "password"},
		"another password in uri": {map[string]string{"uri": "postgresql://admin:else@db.example.com"}, "password"},
		"another host in uri":     {map[string]string{"uri": "postgresql://admin:secret@else.example.com"}, "host"},
		"another username in uri": {map[string]string{"uri": "postgresql://else:secret@db.example.com"}, "username"},
		"a port beside uri":       {map[string]string{"uri": same, "port": "6432"}, "port"},
		"a database beside uri":   {map[string]string{"uri": same, "dbname": "x"}, "dbname"},
		"a weaker sslmode":        {map[string]string{"uri": same, "sslmode": "disable"}, "sslmode"},
		"a weaker sslmode in uri": {map[string]string{"uri": same + "?sslmode=disable", "sslmode": "require"}, "sslmode"},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for _, keys := range []map[string]string{stored, c.data} {
				for key, value := range keys {
					data[key] = []byte(value)
				}
			}
			got, err := credentials.Parse(data)
			if c.key != "" {
				controllertest.ErrorContains(t, c.key+" and uri disagree", err)
				controllertest.Equal(t, "settings", postgresql.Settings{}, got)
				return
			}
			controllertest.Equal(t, "error", nil, err)
			controllertest.Equal(t, "host", "db.example.com", got.Host)
		})
	}
}

// FuzzParse searches for panics, and for errors that contain the password.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"postgresql://a:b@c/d?sslmode=require", "postgres://", "://", "postgresql://a:%zz@c", "postgresql://[::1", "\x00",
	} {
		f.Add(text, "canary-password")
	}
	f.Fuzz(func(t *testing.T, uri, password string) {
		if len(password) < 12 || strings.Contains(uri, password) {
			return
		}
		for _, data := range []map[string][]byte{
			{"uri": []byte(uri + password)}, {"uri": []byte("postgresql://a:" + password + "@" + uri)},
			{"host": []byte(uri), "username": []byte("a"), "password": []byte(password), "ca.crt": []byte(uri)},
		} {
			s, err := credentials.Parse(data)
			if err == nil && (s.Host == "" || s.Port == 0 || s.Username == "" ||
				strings.Contains(s.Username+s.Database+s.Host, "\x00")) {
				t.Errorf("taken: %+v", s)
			}
			if err != nil && strings.HasPrefix(string(data["uri"]), "postgresql://a:"+password+"@") &&
				strings.Contains(err.Error(), password) {
				t.Errorf("the error has the password: %v", err)
			}
		}
	})
}
