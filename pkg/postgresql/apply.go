package postgresql

import "context"

// apply carries out a change, and then logs in.
func (s *Server) apply(ctx context.Context, c *change) (ID, error) {
	w := c.Want
	for c.newPassword = s.refused; ; c.newPassword = true {
		triesPassword := c.newPassword
		done := func(did step) { c.newPassword = c.newPassword && !did.setsPassword }
		after, err := s.converge(ctx, w, steps{c.next, c.unalterable, c.after}, done)
		if err != nil {
			return "", err
		}
		seen, err := s.lookAsOwner(ctx, w)
		switch {
		case isCode(err, codeInvalidPassword) && !triesPassword:
			continue // the role existed, with another password
		case err != nil && c.rotates && s.knowsPassword(err):
			return after.id(), NewError(Unproven, "%w", err)
		case err != nil && c.keepsPassword(after, err):
			return after.id(), NewError(Kept, "role %q was handed over, and does not accept the password in its Secret: %w",
				w.Owner, err)
		case err != nil:
			return after.id(), err
		case c.rotates:
			return seen.id(), nil
		}
		return seen.id(), s.extend(ctx, w, seen)
	}
}

// keepsPassword reports whether a login failed because the owner was handed over with another password, or cannot log
// in.
func (c *change) keepsPassword(s sight, err error) bool {
	if c.usesAlternate() || !c.keepsRole(s) {
		return false
	}
	return isCode(err, codeInvalidPassword) || isCode(err, codeInvalidAuthorization) && !s.Role.Login
}

// knowsPassword reports whether the server accepted the password of a login that failed later: in a query, or because
// of something that a user of the database can change or use up, for example the number of connections.
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
