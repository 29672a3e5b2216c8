package credentials

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"windlass.dev/windlass/pkg/postgresql"
)

const defaultPort = "5432"

// maxSetting and maxCA limit the value of a key, in bytes, because settings are kept in memory
// as long as an object refers to their Secret. Large providers publish the certificates of all
// their regions in 165 KiB.
const maxSetting, maxCA = 4 << 10, 192 << 10

// Parse reads the data of a connection Secret: either the key uri, or the keys host, port, username,
// password and dbname. In both cases it also reads the keys sslmode, which can be a parameter of uri
// instead, and ca. Unlike libpq, it reads no file and no environment variable. Its errors say what to
// change, and do not contain the password.
func Parse(data map[string][]byte) (postgresql.Settings, error) {
	if err := checkSizes(data); err != nil {
		return postgresql.Settings{}, err
	}
	values := map[string]string{KeyPort: defaultPort, KeyDatabase: postgresql.DefaultDatabase, KeyTLSMode: string(postgresql.VerifyFull)}
	for _, key := range []string{KeyHost, KeyPort, KeyUsername, KeyPassword, KeyDatabase, KeyTLSMode} {
		if value := string(data[key]); value != "" {
			values[key] = value
		}
	}
	if uri := string(data[KeyURI]); uri != "" {
		delete(values, KeyHost)
		delete(values, KeyUsername)
		if err := readURI(uri, values); err != nil {
			return postgresql.Settings{}, err
		}
	}
	for key, value := range values {
		if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return postgresql.Settings{}, fmt.Errorf("%s has a control character, such as a line break at its end, or is not in UTF-8", key)
		}
	}
	if values[KeyHost] == "" {
		return postgresql.Settings{}, errors.New("it has neither uri nor host")
	}
	port, err := strconv.ParseUint(values[KeyPort], 10, 16)
	if err != nil || port == 0 {
		return postgresql.Settings{}, errors.New("port must be a number from 1 to 65535")
	}
	s := postgresql.Settings{
		Host: values[KeyHost], Port: uint16(port), Username: values[KeyUsername], Password: values[KeyPassword],
		Database: values[KeyDatabase], Mode: postgresql.TLSMode(values[KeyTLSMode]), CA: data[KeyCA],
	}
	return s, s.Validate()
}

func checkSizes(data map[string][]byte) error {
	for _, key := range []string{KeyURI, KeyHost, KeyPort, KeyUsername, KeyPassword, KeyDatabase, KeyTLSMode} {
		if len(data[key]) > maxSetting {
			return fmt.Errorf("%s has more than %d bytes", key, maxSetting)
		}
	}
	if len(data[KeyCA]) > maxCA {
		return fmt.Errorf("ca has more than %d KiB: leave the certificates of the server's own authority in it", maxCA>>10)
	}
	return nil
}

// readURI overwrites values with the parts of a URI.
func readURI(text string, values map[string]string) error {
	// The error of url.Parse contains the whole URI.
	uri, err := url.Parse(text)
	if err != nil || uri.Scheme != "postgresql" && uri.Scheme != "postgres" || uri.Opaque != "" || strings.Contains(text, "#") {
		return errors.New("uri must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in a part of it")
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
		return errors.New("uri has parameters that cannot be read")
	}
	for name := range parameters {
		switch name {
		case KeyTLSMode:
			set(KeyTLSMode, parameters.Get(name))
		case "application_name", "channel_binding", "connect_timeout": // the operator has its own values
		default:
			// The error does not name the parameter, which may be a part of a password that is not
			// escaped.
			return errors.New("uri has a parameter that is not known here: sslmode is, and the key ca beside uri takes the place of sslrootcert")
		}
	}
	return nil
}
