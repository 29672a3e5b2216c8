package credentials

import (
	"bytes"
	"net/url"

	"windlass.dev/windlass/pkg/postgresql"
)

// NamesServer reports whether the data of a connection Secret names the server in s, and says how to verify it in the
// same way. It returns false for data that Parse rejects.
func NamesServer(data map[string][]byte, s postgresql.Settings) bool {
	of, err := Parse(data)
	return err == nil && of.Host == s.Host && of.Port == s.Port && of.Mode == s.Mode && bytes.Equal(of.CA, s.CA)
}

// HasPassword reports whether the data of a connection Secret has a password, alone or in uri, even if Parse rejects
// the data. It returns false if password is empty.
func HasPassword(data map[string][]byte, password string) bool {
	if password == "" {
		return false
	}
	if string(data[KeyPassword]) == password {
		return true
	}
	uri, err := url.Parse(string(data[KeyURI]))
	if err != nil {
		return false
	}
	ofURI, _ := uri.User.Password()
	return ofURI == password
}
