package postgresql

import (
	"errors"
	"strings"
	"testing"
)

func TestProtectionOfOwnRoleDependsOnItsMark(t *testing.T) {
	ourMark := want().Mark.String()
	const noSuperuser = `ALTER ROLE "clerk" NOSUPERUSER`
	handedOver := want().desiredMark(true)
	for name, c := range map[string]struct {
		mark                 string
		role                 seenRole // without its mark
		uses, retires        bool
		remedy, remedyAtEnds string
	}{
		"REPLICATION and BYPASSRLS, with our mark": {
			mark: ourMark, role: seenRole{Replication: true, BypassRLS: true}, uses: true, retires: true,
		},
		"REPLICATION of a role that was handed over": {
			mark: handedOver, role: seenRole{Replication: true}, uses: true, retires: true,
		},
		"REPLICATION without the mark": {role: seenRole{Replication: true}},
		"BYPASSRLS without the mark":   {role: seenRole{BypassRLS: true}},
		"CREATEROLE of a role that we have made": {
			mark: ourMark, role: seenRole{CreateRole: true}, uses: true, retires: true,
		},
		"CREATEROLE of a role that was handed over": {
			mark: handedOver, role: seenRole{CreateRole: true}, retires: true, remedy: `ALTER ROLE "clerk" NOCREATEROLE`,
		},
		"SUPERUSER": {
			mark: ourMark, role: seenRole{Superuser: true, Replication: true}, remedy: noSuperuser, remedyAtEnds: noSuperuser,
		},
		"the role of the session":        {mark: ourMark, role: seenRole{Session: true, Superuser: true}},
		"a role that initdb has created": {mark: ourMark, role: seenRole{System: true, Superuser: true}},
		"a member of an administrator":   {mark: ourMark, role: seenRole{Rises: true}, uses: true, retires: true},
		"a role whose privileges an administrator has": {
			mark: ourMark, role: seenRole{Carries: true}, uses: true, retires: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.ID = ourID
			change := newChange(w)
			seen := there(func(s *state) { s.Role = &c.role })
			seen.Role.Name, seen.Role.Mark = w.Owner, c.mark
			_, used := change.next(seen)
			_, deleted := change.nextOfDeletion(seen)
			retiring := *change
			retiring.Login = w.Alternates[0]
			seen.Role.Login = true
			_, retired := retiring.nextOfRetirement(seen)
			for _, got := range []struct {
				to      string
				err     error
				allowed bool
				remedy  string
			}{
				{"use", used, c.uses, c.remedy},
				{"delete", deleted, c.retires, c.remedyAtEnds},
				{"retire", retired, c.retires, c.remedyAtEnds},
			} {
				if (ClassOf(got.err) != Protected) != got.allowed || ConflictOf(got.err).Remedy != got.remedy {
					t.Errorf("%s: %v with remedy %q", got.to, got.err, ConflictOf(got.err).Remedy)
				}
			}
		})
	}
}

func TestDeniedChangeNamesAttribute(t *testing.T) {
	denied := failure{error: errors.New("must be superuser (SQLSTATE 42501)"), class: Denied, code: codeNoPrivilege}
	const replication = `ALTER ROLE "clerk" NOREPLICATION`
	const v15, v16 = 150004, 160000
	replicates, bypasses := seenRole{Replication: true}, seenRole{BypassRLS: true}
	hasBoth := seenRole{Replication: true, BypassRLS: true}
	for name, c := range map[string]struct {
		version   int
		role      seenRole
		superuser bool
		powerless bool // the administrator does not have CREATEROLE
		alters    string
		code      string
		remedy    string
	}{
		"REPLICATION on PostgreSQL 15":        {version: v15, role: replicates, alters: "clerk", remedy: replication},
		"an administrator without CREATEROLE": {version: v15, role: replicates, powerless: true, alters: "clerk"},
		"REPLICATION on PostgreSQL 16":        {version: v16, role: replicates, alters: "clerk"},
		"both attributes on PostgreSQL 15":    {version: v15, role: hasBoth, alters: "clerk", remedy: replication},
		"BYPASSRLS on PostgreSQL 15":          {version: v15, role: bypasses, alters: "clerk"},
		"a role without attributes":           {version: v15, alters: "clerk"},
		"a step that alters no role":          {version: v15, role: replicates},
		"a step that alters another role":     {version: v15, role: replicates, alters: "clerk-login1"},
		"a superuser":                         {version: v15, role: replicates, superuser: true, alters: "clerk"},
		"another error than a missing privilege": {
			version: v15, role: replicates, alters: "clerk", code: codeLocked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			change := newChange(want())
			seen := there(func(s *state) {
				c.role.Name = "clerk"
				s.Version, s.Superuser, s.CreatesRoles, s.Role = c.version, c.superuser, !c.powerless, &c.role
			})
			answer := denied
			if c.code != "" {
				answer.code = c.code
			}
			err := change.unalterable(seen, step{alters: c.alters}, &answer)
			if ConflictOf(err).Remedy != c.remedy || (ClassOf(err) == Protected) != (c.remedy != "") {
				t.Errorf("wanted the remedy %q, got %+v of class %s", c.remedy, err, ClassOf(err))
			}
			if c.remedy != "" && !strings.Contains(err.Error(), `role "clerk" has REPLICATION`) {
				t.Errorf("the error does not name the attribute: %v", err)
			}
		})
	}
}
