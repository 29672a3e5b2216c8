package postgresql

import "time"

// Request describes a request to a server that has ended.
type Request struct {
	// Server is the entry of AllowedHosts that matches the server, or UnlistedServer. It is not the host: the host comes
	// from a Secret of a tenant.
	Server string
	// Login is LoginAdministrator or LoginOwner for a login, and empty for a statement.
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

// observe calls o.Observe, if it is set, with a request that began at began.
func (o Options) observe(server, login string, began time.Time, err error) {
	if o.Observe != nil {
		o.Observe(Request{Server: server, Login: login, Took: time.Since(began), Err: err})
	}
}
