package postgresql

import (
	"context"
	"strings"
)

// apply executes the steps of a change, and then logs in as the login. Unless the change is a rotation, apply also
// creates missing extensions. It returns the ID of the database, and also returns the ID with an error of the login or
// of an extension.
func (s *Server) apply(ctx context.Context, c *change) (ID, error) {
	if s.connector.options.Offline {
		return offlineID, nil
	}
	w := c.Want
	var err error
	if c.verifier, err = s.verifier(w.Password); err != nil {
		return "", err
	}
	for c.newPassword = c.rotates || isCode(s.rejection, codeInvalidPassword); ; c.newPassword = true {
		triesPassword := c.newPassword
		after, err := s.converge(ctx, c, (*change).next)
		if err != nil {
			return "", err
		}
		if c.keepsPassword(after, s.rejection) {
			return after.id(), c.kept(after, s.rejection) // the steps have not changed what the login needs
		}
		seen, err := s.lookAsOwner(ctx, w)
		switch {
		case c.keepsPassword(after, err):
			return after.id(), c.kept(after, err)
		case isCode(err, codeInvalidPassword) && !triesPassword:
			continue // the role has another password, so set it
		case err != nil && c.rotates && s.knowsPassword(err):
			return after.id(), NewError(Unproven, "%w", err)
		case err != nil:
			return after.id(), err
		case c.rotates:
			return seen.id(), nil
		}
		return seen.id(), s.extend(ctx, w, seen)
	}
}

// keepsPassword reports whether a login failed with err because the owner, which was handed over, has another password
// or may not log in.
func (c *change) keepsPassword(s state, err error) bool {
	if c.usesAlternate() || !c.keepsRole(s) {
		return false
	}
	return isCode(err, codeInvalidPassword) || isCode(err, codeInvalidAuthorization) && !s.Role.Login
}

// kept returns the error of class Kept for a login that failed with err.
func (c *change) kept(s state, err error) error {
	const text = "role %q was handed over, and cannot log in with the password in its Secret: %w"
	return NewConflict(Kept, Conflict{Remedy: c.admit(s.Role)}, text, c.Owner, err)
}

// admit returns the SQL that lets the owner log in with its password, or "" if its attributes permit the login already.
func (c *change) admit(owner *seenRole) string {
	var attributes parts
	attributes.add(!owner.Login, " LOGIN")
	attributes.add(owner.Expired, " VALID UNTIL 'infinity'")
	if len(attributes) == 0 {
		return ""
	}
	return "ALTER ROLE " + c.owner + strings.Join(attributes, "")
}

// knowsPassword reports whether the server accepted the password, although the login or a later query failed with err.
// A user of the database can cause such an error, for example by using all connections.
func (s *Server) knowsPassword(err error) bool {
	return s.owner != nil && !ofServer(err) || acceptsPassword(err)
}

// forgetOwner closes the session of the owner's login.
func (s *Server) forgetOwner() {
	if s.owner != nil {
		s.owner.close()
		s.owner = nil
	}
}
