# Functions of server.sh for the roles, their logins and the database.

# prepare brings the roles, their logins and the database to their desired state. If it fails, it sets why.
prepare() {
  why="PostgreSQL rejects the role or the database; its log says why."
  ask postgres >/dev/null <<'SQL' || return 1
SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
ALTER ROLE :"owner" :attributes VALID UNTIL 'infinity';
ALTER ROLE :"owner" RESET role;
COMMENT ON ROLE :"owner" IS :'mark';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'owner') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
ALTER DATABASE :"database" OWNER TO :"owner";
SQL
  for role in owner alternate1 alternate2; do set_password "$role" || return 1; done
  for role in owner alternate1 alternate2; do end_login "$role" || return 1; done
  # Former owners that this script has created transfer their objects in the database to the owner,
  # and can no longer log in. An alternate has objects if a session did not act as the owner, as after DISCARD ALL.
  why="PostgreSQL does not transfer the objects of a former owner or login; its log says why."
  ask "$database" >/dev/null <<'SQL' || return 1
SET lock_timeout = '500ms'; -- others queue behind a lock that this script waits for
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner'), format('ALTER ROLE %I NOLOGIN NOCREATEDB NOCREATEROLE PASSWORD NULL', rolname)
  FROM pg_roles WHERE rolname NOT IN (:'owner', :'alternate1', :'alternate2') AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner')
  FROM pg_roles WHERE rolname IN (:'alternate1', :'alternate2') AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
SQL
}

# make_alternate makes a role an alternate of the owner. The role becomes a member of the owner, and its sessions act as
# the owner. The objects that it creates therefore belong to the owner. PostgreSQL applies the settings of the role that
# logs in, so make_alternate copies the settings of the owner to the role.
make_alternate() {
  why="PostgreSQL rejects another login of the owner; its log says why."
  foreign=$(ask postgres --set=role="$1" <<'SQL'
SELECT count(*) FROM pg_roles WHERE rolname = :'role' AND shobj_description(oid, 'pg_authid') IS DISTINCT FROM :'mark';
SQL
  ) || return 1
  if [ "$foreign" != 0 ]; then
    why="The login cannot be rotated, because a role $1 exists that Windlass has not created. Rename or drop this role."
    return 1
  fi
  # The copy happens within the server. A value that psql puts into a statement could change the statement.
  ask postgres --set=role="$1" >/dev/null <<'SQL'
BEGIN;
SELECT format('CREATE ROLE %I', :'role') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec
COMMENT ON ROLE :"role" IS :'mark';
ALTER ROLE :"role" INHERIT NOCREATEDB NOCREATEROLE VALID UNTIL 'infinity';
SELECT format('GRANT %I TO %I', :'owner', :'role') || CASE WHEN current_setting('server_version_num')::int >= 160000 THEN ' WITH INHERIT TRUE, SET TRUE' ELSE '' END \gexec
DELETE FROM pg_db_role_setting USING pg_roles WHERE setrole = pg_roles.oid AND rolname = :'role';
INSERT INTO pg_db_role_setting (setdatabase, setrole, setconfig)
  SELECT setdatabase, (SELECT oid FROM pg_roles WHERE rolname = :'role'), array_agg(setting) FROM (
    SELECT setdatabase, setting FROM pg_db_role_setting JOIN pg_roles ON pg_roles.oid = setrole, unnest(setconfig) setting
      WHERE rolname = :'owner' AND setting NOT LIKE 'role=%'
    UNION ALL SELECT 0, 'role=' || :'owner') settings
  GROUP BY setdatabase;
COMMIT;
SQL
}

# set_password sets the password with which a role can log in. Its argument is owner, alternate1 or alternate2.
#
# The operator reports a password with a control character, and this script does not set it. psql sends a SCRAM verifier
# in place of the password, so that no log of the server has the password. Without a terminal, psql reads the password
# twice from its input.
set_password() {
  [ "$(cat "$copy/$1.login")" = Password ] || return 0
  name=$(cat "$copy/$1") || return 1
  [ "$1" = owner ] || make_alternate "$name" || return 1
  why="PostgreSQL rejects the password in the Secret."
  password=$(cat "$copy/$1.password" && printf .) || return 1 # the dot keeps a line break at the end
  password=${password%.}
  case $password in
  *[[:cntrl:]]*) echo "The password in the Secret has a control character, and is not set." ;;
  *) printf '%s\n%s\n' "$password" "$password" | ask postgres --set=role="$name" --command='\password :"role"' >/dev/null 2>&1 || return 1 ;;
  esac
  ask postgres --set=role="$name" >/dev/null <<'SQL'
ALTER ROLE :"role" LOGIN;
SQL
}

# end_login ends the login of a role that must not log in, and its connections.
end_login() {
  [ "$(cat "$copy/$1.login")" = None ] || return 0
  name=$(cat "$copy/$1") || return 1
  why="PostgreSQL does not end the logins of a former password; its log says why."
  ask postgres --set=role="$name" >/dev/null <<'SQL'
SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_roles ON usesysid = pg_roles.oid
  WHERE rolname = :'role' AND shobj_description(pg_roles.oid, 'pg_authid') = :'mark' AND backend_type = 'client backend';
SELECT format('ALTER ROLE %I NOLOGIN PASSWORD NULL', rolname) FROM pg_roles WHERE rolname = :'role' AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_roles ON usesysid = pg_roles.oid
  WHERE rolname = :'role' AND NOT rolcanlogin AND backend_type = 'client backend';
SQL
}

