package postgresql

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
)

// DefaultDatabase is the database to which an administrator connects by default. initdb creates it.
const DefaultDatabase = "postgres"

// Settings say how to connect to a server, and as which role.
type Settings struct {
	Host               string
	Port               uint16
	Username, Password string
	Database           string
	Mode               TLSMode
	CA                 []byte // certificates in PEM form; empty means the certificates that the system trusts
	// ServerName is the name that the certificate of the server must have with VerifyFull. It defaults to Host.
	ServerName string
}

// Address returns HOST:PORT.
func (s Settings) Address() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port)))
}

// Validate returns an error if no connection with the settings can succeed. The error names the setting to change, by
// its key in a connection Secret, and does not contain the password.
func (s Settings) Validate() error {
	switch {
	case !isHost(s.Host):
		return errors.New("host must be a single DNS name or IP address; lists of hosts and sockets are not supported")
	case s.Username == "":
		return errors.New("username is missing")
	case len(s.Database) > maxIdentifier || len(s.Username) > maxIdentifier:
		return fmt.Errorf("username and dbname must have at most %d bytes", maxIdentifier)
	}
	_, err := s.tls()
	return err
}

var dnsName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?$`)

// isHost reports whether a host is a DNS name, or an IP address without a zone.
func isHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Zone() == "" || err != nil && dnsName.MatchString(host)
}
