package postgresql

import (
	"net/netip"
	"path"
	"strings"
	"time"
)

// Request is a request to a server that has ended.
type Request struct {
	// Server is the entry of AllowedHosts that matches the server, or UnlistedServer. It is not the host: the host comes
	// from a Secret of a tenant.
	Server string
	// Login is the role that has logged in. It is empty for a statement.
	Login string
	// Took is the duration of the request.
	Took time.Duration
	// Err is the error of the request, or nil. It has a Class.
	Err error
}

// UnlistedServer is Request.Server for all servers that no entry of AllowedHosts matches.
const UnlistedServer = "unlisted"

// The values of Request.Login.
const (
	LoginAdministrator = "administrator"
	LoginOwner         = "owner"
)

// observe reports a request that began at began.
func (o Options) observe(server, login string, began time.Time, err error) {
	if o.Observe != nil {
		o.Observe(Request{Server: server, Login: login, Took: time.Since(began), Err: err})
	}
}

// entry returns the entry that matches a server, or UnlistedServer. Exact names and addresses come first. address is the
// zero Addr if it is not known.
func (a AllowedHosts) entry(host string, address netip.Addr) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if literal, err := netip.ParseAddr(host); err == nil {
		address = literal
	}
	address = address.Unmap().WithZone("")
	found, exact := UnlistedServer, false
	for _, prefix := range a.prefixes {
		if prefix.Contains(address) && !exact {
			found, exact = prefix.String(), prefix.IsSingleIP()
			if exact {
				found = prefix.Addr().String()
			}
		}
	}
	for _, pattern := range a.patterns {
		if matched, err := path.Match(pattern, host); matched && err == nil && !exact {
			found, exact = pattern, pattern == host
		}
	}
	return found
}
