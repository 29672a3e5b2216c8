package credentials

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"windlass.dev/windlass/pkg/postgresql"
)

const defaultPort = "5432"

// maxSetting limits the value of a key, in bytes, because settings are kept in memory as long as an object refers to
// their Secret.
const maxSetting = 4 << 10

// MaxCA limits KeyCA, in bytes. Large providers publish a file of 165 KiB with the certificates of all their regions.
const MaxCA = 192 << 10

// connectionKeys are the keys whose values uri contains too.
var connectionKeys = []string{KeyHost, KeyPort, KeyUsername, KeyPassword, KeyDatabase, KeyTLSMode}

// Parse reads the data of a connection Secret. The connection is in the key uri, or in the keys host, port, username,
// password, dbname and sslmode. The key ca.crt is optional. If uri and another key contain the same setting, both
// values must be equal. Otherwise, the operator could send a password that one user stored to a server that another
// user added. Unlike libpq, Parse reads no file and no environment variable. The errors of Parse say what to change,
// and do not contain the password.
func Parse(data map[string][]byte) (postgresql.Settings, error) {
	if err := checkSizes(data); err != nil {
		return postgresql.Settings{}, err
	}
	values := map[string]string{
		KeyPort: defaultPort, KeyDatabase: postgresql.DefaultDatabase, KeyTLSMode: string(postgresql.VerifyFull),
	}
	uri := string(data[KeyURI])
	if uri != "" {
		if err := readURI(uri, values); err != nil {
			return postgresql.Settings{}, err
		}
	} else {
		for _, key := range connectionKeys {
			if value := string(data[key]); value != "" {
				values[key] = value
			}
		}
	}
	s, err := settingsOf(values, data[KeyCA])
	if err == nil && uri != "" {
		err = checkAgreement(data, values)
	}
	if err != nil {
		return postgresql.Settings{}, err
	}
	return s, nil
}

// checkAgreement returns an error if a key has another value than uri.
func checkAgreement(data map[string][]byte, ofURI map[string]string) error {
	for _, key := range connectionKeys {
		if value := string(data[key]); value != "" && value != ofURI[key] {
			return errors.New(messageMixed.With(key))
		}
	}
	return nil
}

// settingsOf returns the values of a connection as Settings, or an error that names the key to correct.
func settingsOf(values map[string]string, ca []byte) (postgresql.Settings, error) {
	for key, value := range values {
		if err := checkCharacters(key, value); err != nil {
			return postgresql.Settings{}, err
		}
	}
	if values[KeyHost] == "" {
		return postgresql.Settings{}, errors.New(messageNoHost.With())
	}
	port, err := strconv.ParseUint(values[KeyPort], 10, 16)
	if err != nil || port == 0 {
		return postgresql.Settings{}, errors.New(messagePort.With())
	}
	s := postgresql.Settings{
		Host: values[KeyHost], Port: uint16(port), Username: values[KeyUsername], Password: values[KeyPassword],
		Database: values[KeyDatabase], Mode: postgresql.TLSMode(values[KeyTLSMode]), CA: ca,
	}
	return s, s.Validate()
}

// checkCharacters returns an error if the value of a key has a control character or is not valid UTF-8.
func checkCharacters(key, value string) error {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New(messageControl.With(key))
	}
	return nil
}

func checkSizes(data map[string][]byte) error {
	for _, key := range append([]string{KeyURI}, connectionKeys...) {
		if len(data[key]) > maxSetting {
			return errors.New(messageLong.With(key, maxSetting))
		}
	}
	if len(data[KeyCA]) > MaxCA {
		return errors.New(messageLargeCA.With(MaxCA >> 10))
	}
	return nil
}

// readURI overwrites values with the parts of a URI.
func readURI(text string, values map[string]string) error {
	if err := checkCharacters(KeyURI, text); err != nil {
		return err
	}
	// The error of url.Parse contains the whole URI, so readURI does not return it.
	uri, err := url.Parse(text)
	if err != nil || uri.Scheme != "postgresql" && uri.Scheme != "postgres" || uri.Opaque != "" ||
		strings.Contains(text, "#") {
		return errors.New(messageURI.With())
	}
	set := func(key, value string) {
		if value != "" {
			values[key] = value
		}
	}
	password, _ := uri.User.Password()
	set(KeyHost, uri.Hostname())
	set(KeyPort, uri.Port())
	set(KeyUsername, uri.User.Username())
	set(KeyPassword, password)
	set(KeyDatabase, strings.TrimPrefix(uri.Path, "/"))
	parameters, err := url.ParseQuery(uri.RawQuery)
	if err != nil {
		return errors.New(messageQuery.With())
	}
	for name := range parameters {
		switch name {
		case KeyTLSMode:
			set(KeyTLSMode, parameters.Get(name))
		case KeyRootCert: // the operator reads no file
			if parameters.Get(name) != RootCertPath {
				return errors.New(messageParameter.With())
			}
		case "application_name", "channel_binding", "connect_timeout": // the operator has its own values
		default:
			// The error does not quote the parameter, because it can be a part of a password with a question mark
			// that is not escaped.
			return errors.New(messageParameter.With())
		}
	}
	return nil
}
