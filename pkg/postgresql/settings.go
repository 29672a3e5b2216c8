package postgresql

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Settings are how to reach a server, and as whom.
type Settings struct {
	Host               string
	Port               uint16
	Username, Password string
	Database           string
	Mode               TLSMode
	CA                 []byte // certificates in PEM form; empty means those that the system trusts
}

// Address is HOST:PORT.
func (s Settings) Address() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port)))
}

// Keys of a connection Secret.
const (
	KeyURI      = "uri"
	KeyHost     = "host"
	KeyPort     = "port"
	KeyUsername = "username"
	KeyPassword = "password"
	KeyDatabase = "dbname"
	KeyTLSMode  = "sslmode"
	KeyCA       = "ca"
)

const (
	defaultPort     = "5432"
	defaultDatabase = "postgres"
)

// maxSetting and maxCA are what a key may have, in bytes: all that is read is kept as long
// as something refers to it. Large providers publish the certificates of all their regions
// in 165 KiB.
const maxSetting, maxCA = 4 << 10, 192 << 10

// ParseSettings reads the data of a connection Secret: uri, or else host, port,
// username, password and dbname; and with both sslmode (which uri may have as well) and
// ca. Its errors say what to change, and nothing of what is secret. No file and no
// variable of the environment adds to it, as libpq would have it.
func ParseSettings(data map[string][]byte) (Settings, error) {
	for _, key := range []string{KeyURI, KeyHost, KeyPort, KeyUsername, KeyPassword, KeyDatabase, KeyTLSMode} {
		if len(data[key]) > maxSetting {
			return Settings{}, fmt.Errorf("%s has more than %d bytes", key, maxSetting)
		}
	}
	if len(data[KeyCA]) > maxCA {
		return Settings{}, fmt.Errorf("ca has more than %d KiB: leave the certificates of the server's own authority in it", maxCA>>10)
	}
	values := map[string]string{KeyPort: defaultPort, KeyDatabase: defaultDatabase, KeyTLSMode: string(VerifyFull)}
	for _, key := range []string{KeyHost, KeyPort, KeyUsername, KeyPassword, KeyDatabase, KeyTLSMode} {
		if value := string(data[key]); value != "" {
			values[key] = value
		}
	}
	if uri := string(data[KeyURI]); uri != "" {
		delete(values, KeyHost)
		delete(values, KeyUsername)
		if err := readURI(uri, values); err != nil {
			return Settings{}, err
		}
	}
	for key, value := range values {
		if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return Settings{}, fmt.Errorf("%s has a control character, such as a line break at its end, or is not in UTF-8", key)
		}
	}
	port, err := strconv.ParseUint(values[KeyPort], 10, 16)
	if err != nil || port == 0 {
		return Settings{}, errors.New("port must be a number from 1 to 65535")
	}
	s := Settings{
		Host: values[KeyHost], Port: uint16(port), Username: values[KeyUsername], Password: values[KeyPassword],
		Database: values[KeyDatabase], Mode: TLSMode(values[KeyTLSMode]), CA: data[KeyCA],
	}
	return s, s.check()
}

func (s Settings) check() error {
	switch {
	case s.Host == "":
		return errors.New("it has neither uri nor host")
	case !isHost(s.Host):
		return errors.New("host must be one DNS name or address, not several, and not a socket")
	case s.Username == "":
		return errors.New("it has no username")
	case len(s.Database) > maxIdentifier || len(s.Username) > maxIdentifier:
		return fmt.Errorf("username and dbname may have %d bytes at most", maxIdentifier)
	}
	_, err := s.tls()
	return err
}

var dnsName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?$`)

// isHost tells whether a host is a name, or an address without a zone.
func isHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Zone() == "" || err != nil && dnsName.MatchString(host)
}

// readURI adds what a URI says, which goes before what is in values.
func readURI(text string, values map[string]string) error {
	// The error of url.Parse has the whole URI in it.
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
		case "application_name", "channel_binding", "connect_timeout": // the controller has its own
		default:
			// Which one is not told: it may be a part of a password that is not escaped.
			return errors.New("uri has a parameter that is not known here: sslmode is, and the key ca beside uri takes the place of sslrootcert")
		}
	}
	return nil
}
