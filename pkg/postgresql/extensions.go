package postgresql

import (
	"context"
	"fmt"
	"slices"
)

// extend creates the missing extensions. Some extensions need others, so extend tries all missing extensions again
// until it can create none of them. It returns the error of the first extension that is still missing.
func (s *Server) extend(ctx context.Context, w Want, seen state) error {
	missing := w.missing(seen)
	if s.connector.options.Plan != nil && len(missing) > 0 {
		seen.Extensions = append(slices.Clone(seen.Extensions), missing...)
		s.predict(w, seen)
	}
	for {
		var first error
		left := slices.DeleteFunc(slices.Clone(missing), func(name string) bool {
			err := s.makeExtension(ctx, w, name)
			if err != nil && first == nil {
				first = fmt.Errorf("creating extension %q: %w", name, err)
			}
			return err == nil
		})
		if len(left) == 0 || len(left) == len(missing) {
			return first
		}
		missing = left
	}
}

// makeExtension creates an extension as the owner. If the owner may not create the extension, and UntrustedExtensions
// lists it, makeExtension creates the extension as the administrator. The schema is public, unless the control file of
// the extension names another one.
func (s *Server) makeExtension(ctx context.Context, w Want, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	sql := "SET LOCAL search_path = public; CREATE EXTENSION IF NOT EXISTS " + quoted(name)
	asOwner, asAdmin := "SET LOCAL ROLE "+literal(w.Owner)+"; "+sql, "SET LOCAL ROLE NONE; "+sql
	if s.plan(asOwner) {
		return nil
	}
	err := s.owner.exec(ctx, asOwner)
	if isCode(err, codeNoPrivilege) {
		if !slices.Contains(s.connector.options.UntrustedExtensions, name) {
			return NewError(Unlisted, "the owner may not create it, and --external-database-untrusted-extensions "+
				"does not list it: %w", err)
		}
		admin, connectErr := s.administrator(ctx, w.Database)
		if connectErr != nil {
			return connectErr
		}
		err = admin.exec(ctx, asAdmin)
	}
	if failureOf(err).code != "" && ClassOf(err) == Other {
		return NewError(Rejected, "%w", err) // another attempt would fail too
	}
	return err
}
