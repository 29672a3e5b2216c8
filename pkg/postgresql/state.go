package postgresql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// state is the observed state. It is the result of stateQuery. Both the owner and the administrator can
// send the query.
type state struct {
	Server    string `json:"server"`    // the system identifier
	Version   int    `json:"version"`   // 150004 for 15.4
	Connected string `json:"connected"` // the database of the session
	// Superuser, CreatesRoles and Inherits describe the role of the session. Inherits is true if the role inherits the
	// privileges of the roles that it is a member of, or if this depends on each membership: see stateQuery.
	Superuser    bool          `json:"superuser"`
	CreatesRoles bool          `json:"createsRoles"`
	Inherits     bool          `json:"inherits"`
	Role         *seenRole     `json:"role"`       // the owner
	Alternates   []*seenRole   `json:"alternates"` // the alternate logins that exist
	Database     *seenDatabase `json:"database"`
	Extensions   []string      `json:"extensions"` // of the database of the session
}

type seenRole struct {
	Name           string `json:"name"`
	Mark           string `json:"mark"`
	Held           bool   `json:"held"` // the role of the session may act as this role
	Login          bool   `json:"login"`
	Superuser      bool   `json:"superuser"`
	CreateRole     bool   `json:"createRole"`
	CreateDatabase bool   `json:"createDatabase"`
	Replication    bool   `json:"replication"`
	BypassRLS      bool   `json:"bypassRLS"`
	Expires        bool   `json:"expires"`
	Expired        bool   `json:"expired"` // the role cannot log in with a password any more
	System         bool   `json:"system"`  // initdb has created the role
	Rises          bool   `json:"rises"`   // the role is a member of a role with one of these attributes
	Session        bool   `json:"session"` // the session has logged in as this role, or acts as it
	// Carries is true if the role of the session, which is not a superuser, has privileges through this role.
	Carries  bool `json:"carries"`
	Sessions bool `json:"sessions"` // clients are logged in as this role

	// The query returns the other fields only for alternate logins.
	Inherits bool `json:"inherits"` // the role inherits the privileges of the roles that it is a member of
	Member   bool `json:"member"`   // the role may act as the owner
	Acts     bool `json:"acts"`     // sessions of the role act as the owner
	Owns     bool `json:"owns"`     // the role owns objects in the database
}

// roles returns the alternate logins and the owner, if they exist.
func (s state) roles() []*seenRole {
	all := slices.Clone(s.Alternates)
	if s.Role != nil {
		all = append(all, s.Role)
	}
	return all
}

// role returns the role with a name, or nil if it does not exist.
func (s state) role(name string) *seenRole {
	for _, role := range s.roles() {
		if role.Name == name {
			return role
		}
	}
	return nil
}

// drop removes a role from the state.
func (s *state) drop(role *seenRole) {
	if role == s.Role {
		s.Role = nil
	}
	s.Alternates = slices.DeleteFunc(s.Alternates, func(other *seenRole) bool { return other == role })
}

type seenDatabase struct {
	OID         string `json:"oid"`
	Owner       string `json:"owner"`
	Mark        string `json:"mark"`
	Connectable bool   `json:"connectable"`
	Template    bool   `json:"template"`
	Limited     bool   `json:"limited"`     // the number of connections is limited to 0
	OfSuperuser bool   `json:"ofSuperuser"` // a superuser owns the database
	// Ordinary is true if the owner is neither an administrator nor a role of the server itself.
	Ordinary bool `json:"ordinary"`
	Public   bool `json:"public"`  // PUBLIC has a privilege
	Granted  bool `json:"granted"` // the owner has all privileges
}

// reaches returns the SQL that is true if a member has the privileges of a role, or can get them with SET ROLE. Until
// PostgreSQL 15, every member can. From PostgreSQL 16 on, a member may have only the option ADMIN, as the creator of a
// role has.
func reaches(member, role string) string {
	has := func(privilege string) string { return "pg_has_role(" + member + ", " + role + ", '" + privilege + "')" }
	return "case when current_setting('server_version_num')::int >= 160000 then " + has("usage") + " or " + has("set") +
		" else " + has("member") + " end"
}

// roleColumns are the columns of seenRole. Until PostgreSQL 15, an attribute of a member decides whether the member may
// act as a role. From PostgreSQL 16 on, options of the membership decide. A backend_type is null if the role that sends
// the query may not see it. rises includes each membership, because a member with the option ADMIN can grant itself the
// other options.
var roleColumns = `
      'mark', coalesce(left(shobj_description(r.oid, 'pg_authid'), 1024), ''),
      'held', pg_has_role(r.oid, 'usage')
        and case when current_setting('server_version_num')::int >= 160000 then pg_has_role(r.oid, 'set') else true end,
      'login', rolcanlogin, 'superuser', rolsuper, 'createRole', rolcreaterole, 'createDatabase', rolcreatedb,
      'replication', rolreplication, 'bypassRLS', rolbypassrls,
      'expires', coalesce(rolvaliduntil < 'infinity', false), 'expired', coalesce(rolvaliduntil < now(), false),
      'system', r.oid < 16384, 'session', rolname in (current_user, session_user),
      'rises', exists (select from pg_roles a where a.oid <> r.oid and pg_has_role(r.oid, a.oid, 'member')
        and (a.rolsuper or a.rolcreaterole or a.rolreplication or a.rolbypassrls)),
      'carries', not (select rolsuper from pg_roles where rolname = current_user)
        and ` + reaches("session_user", "r.oid") + `
        and exists (select from pg_auth_members m where m.member = r.oid and ` + reaches("r.oid", "m.roleid") + `),
      'sessions', exists (select from pg_stat_get_activity(null) where usesysid = r.oid and pid <> pg_backend_pid()
        and coalesce(backend_type, 'client backend') ` + ofClient + `)`

// stateQuery takes the name of the owner as $1, the name of the database as $2, and an array with the names of the
// alternate logins as $3. acts is false if the alternate login has a setting of role for this database, because such a
// setting takes precedence over the setting for all databases.
var stateQuery = `select json_build_object(
  'server', (select system_identifier::text from pg_control_system()),
  'connected', current_database(),
  'version', current_setting('server_version_num')::int,
  'superuser', (select rolsuper from pg_roles where rolname = current_user),
  'createsRoles', (select rolcreaterole from pg_roles where rolname = current_user),
  'inherits', (select rolinherit or current_setting('server_version_num')::int >= 160000
    from pg_roles where rolname = current_user),
  'extensions', (select coalesce(json_agg(extname), '[]') from pg_extension),
  'role', (select json_build_object(` + roleColumns + `)
    from pg_roles r where rolname = $1::name),
  'alternates', (select json_agg(json_build_object(` + roleColumns + `,
      'name', rolname, 'inherits', rolinherit,
      'member', exists (select from pg_roles o where o.rolname = $1::name and pg_has_role(r.oid, o.oid, 'usage')
        and case when current_setting('server_version_num')::int >= 160000
          then pg_has_role(r.oid, o.oid, 'set') else true end),
      'acts', (select count(*) filter (where setdatabase = 0 and 'role=' || $1 = any (setconfig)) = 1
          and count(*) filter (where setdatabase <> 0
            and exists (select from unnest(setconfig) c where c like 'role=%')) = 0
        from pg_db_role_setting left join pg_database d on d.oid = setdatabase
        where setrole = r.oid and (setdatabase = 0 or datname = $2::name)),
      'owns', exists (select from pg_shdepend s
        where s.refclassid = 'pg_authid'::regclass and s.refobjid = r.oid and s.deptype = 'o'
        and s.classid not in ('pg_default_acl'::regclass, 'pg_user_mapping'::regclass) /* REASSIGN OWNED leaves them */
        and s.dbid = (select d.oid from pg_database d where datname = $2::name))) order by rolname)
    from pg_roles r where rolname = any ($3::name[]) and rolname <> $1::name),
  'database', (select json_build_object(
      'oid', oid::text, 'owner', pg_get_userbyid(datdba),
      'mark', coalesce(left(shobj_description(oid, 'pg_database'), 1024), ''),
      'connectable', datallowconn, 'template', datistemplate, 'limited', datconnlimit = 0,
      'ofSuperuser', (select rolsuper from pg_roles o where o.oid = datdba),
      'ordinary', exists (select from pg_roles o where o.oid = datdba and o.oid >= 16384
        and rolname not in (current_user, session_user)
        and not (rolsuper or rolcreaterole or rolreplication or rolbypassrls)),
      'public', exists (select from aclexplode(coalesce(datacl, acldefault('d', datdba))) where grantee = 0),
      'granted', 3 = (select count(distinct privilege_type)
        from aclexplode(coalesce(datacl, acldefault('d', datdba))) where grantee = datdba))
    from pg_database where datname = $2::name)
)`

// array returns names as the text of an array.
func array(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		quoted = append(quoted, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"`)
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// look checks the names in w, and queries the state. Callers call look before they put these names into statements.
func (s *session) look(ctx context.Context, w Want) (state, error) {
	if err := w.checkNames(); err != nil {
		return state{}, err
	}
	var seen state
	err := s.query(ctx, &seen, stateQuery, []byte(w.Owner), []byte(w.Database), []byte(array(w.Alternates)))
	if err != nil {
		return state{}, fmt.Errorf("querying role %q and database %q: %w", w.Owner, w.Database, err)
	}
	return seen.of(w), nil
}

// of returns the state without roles that w does not name. A hostile server can name other roles in its response.
func (s state) of(w Want) state {
	if s.Role != nil {
		s.Role.Name = w.Owner
	}
	s.Alternates = slices.DeleteFunc(s.Alternates, func(role *seenRole) bool {
		return role == nil || !slices.Contains(w.Alternates, role.Name)
	})
	return s
}

// number matches system identifiers and OIDs, which have at most 64 bits.
var number = regexp.MustCompile(`^[0-9]{1,20}$`)

// plausible implements result.
func (s state) plausible() bool {
	return number.MatchString(s.Server) && (s.Database == nil || number.MatchString(s.Database.OID) &&
		len(s.Database.Owner) <= maxIdentifier)
}

// ID identifies a database: the system identifier of the server, a slash, and the OID of the database.
// The zero value means no database.
type ID string

// server returns the system identifier of the server.
func (id ID) server() string {
	server, _, _ := strings.Cut(string(id), "/")
	return server
}

// id returns the ID of the database, or "" if the database does not exist.
func (s state) id() ID {
	if s.Database == nil {
		return ""
	}
	return ID(s.Server + "/" + s.Database.OID)
}
