# Functions of server.sh for the roles, their logins and the database.

# prepare brings the roles, their logins and the database to their desired state. If it fails, it sets why.
#
# The user of a login can hold locks and change the database, and thus make statements fail. prepare therefore ends the
# logins that must end before it does anything else. After the role and the database exist, a failed statement does not
# prevent the next ones.
prepare() {
  cause=
  end_logins || cause=$why
  create || return 1
  for role in alternate1 alternate2 owner; do set_password "$role" || cause=$why; done
  update || cause=$why
  transfer || cause=$why
  set_backup || cause=$why
  end_sessions || cause=$why # the sessions of clients that logged in while end_logins ran
  why=$cause
  [ -z "$cause" ]
}

# end_logins ends the logins of previous owners that this script has created, the logins that must not log in, and the
# connections of both. It ends connections before it changes the roles, because a client can lock its role. Afterwards,
# it ends the connections that clients opened meanwhile.
end_logins() {
  none=
  for role in owner alternate1 alternate2; do
    [ "$(cat "$copy/$role.login")" != None ] || none="$none $role "
  done
  why="PostgreSQL does not end the logins of a previous owner or password; its log says why."
  ask postgres --set=none="$none" >/dev/null <<'SQL' || return 1
CREATE TEMPORARY TABLE ends AS
  SELECT oid, rolname, rolname NOT IN (:'owner', :'alternate1', :'alternate2') AS previous FROM pg_roles
  WHERE shobj_description(oid, 'pg_authid') = :'mark' AND (rolname NOT IN (:'owner', :'alternate1', :'alternate2')
    OR :'none' LIKE '% owner %' AND rolname = :'owner' OR :'none' LIKE '% alternate1 %' AND rolname = :'alternate1'
    OR :'none' LIKE '% alternate2 %' AND rolname = :'alternate2');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN ends ON usesysid = ends.oid
  WHERE backend_type = 'client backend';
SELECT format('ALTER ROLE %I NOLOGIN PASSWORD NULL', rolname)
  || CASE WHEN previous THEN ' NOCREATEDB NOCREATEROLE' ELSE '' END FROM ends \gexec
SQL
  end_sessions
}

# end_sessions ends the connections of roles that cannot log in any more.
end_sessions() {
  why="PostgreSQL does not end the connections of a previous login; its log says why."
  ask postgres >/dev/null <<'SQL'
SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_roles ON usesysid = pg_roles.oid
  WHERE NOT rolcanlogin AND shobj_description(pg_roles.oid, 'pg_authid') = :'mark' AND backend_type = 'client backend';
SQL
}

# create creates the owner and the database if they do not exist. If both exist, create waits for no lock.
create() {
  why="PostgreSQL rejects the role or the database; its log says why."
  ask postgres >/dev/null <<'SQL'
SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
SELECT format('COMMENT ON ROLE %I IS %L', rolname, :'mark') FROM pg_roles
  WHERE rolname = :'owner' AND shobj_description(oid, 'pg_authid') IS DISTINCT FROM :'mark' \gexec
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'owner')
  WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
SQL
}

# update corrects the attributes of the owner, and the settings of the database that prevent connections.
update() {
  why="PostgreSQL rejects a change of the role or the database; its log says why."
  ask postgres >/dev/null <<'SQL'
ALTER ROLE :"owner" :attributes VALID UNTIL 'infinity';
ALTER ROLE :"owner" RESET role;
ALTER DATABASE :"database" OWNER TO :"owner";
SELECT format('ALTER DATABASE %I ALLOW_CONNECTIONS true', datname) FROM pg_database
  WHERE datname = :'database' AND NOT datallowconn \gexec
SELECT format('ALTER DATABASE %I CONNECTION LIMIT -1', datname) FROM pg_database
  WHERE datname = :'database' AND datconnlimit = 0 \gexec
SQL
}

# transfer gives the objects of previous owners and of alternates in the database to the owner. An alternate owns the
# objects that its sessions created while they did not act as the owner, for example after DISCARD ALL.
transfer() {
  why="PostgreSQL does not transfer the objects of a previous owner or login; its log says why."
  ask "$database" >/dev/null <<'SQL'
SET lock_timeout = '500ms'; -- others queue behind a lock that this script waits for
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner')
  FROM pg_roles WHERE rolname <> :'owner' AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
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
    why="The login cannot be rotated, because a role $1 exists that Windlass has not created. Rename this role."
    return 1
  fi
  # The server copies the settings itself, because a value that psql puts into a statement could change the statement.
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

# change_password sets the password of a role, its first argument, to the password in a file of the settings.
#
# This script does not set a password with a control character. The operator reports such a password. psql sends a SCRAM
# verifier in place of the password, so that no log of the server has the password. Without a terminal, psql reads the
# password twice from its input.
change_password() {
  why="PostgreSQL rejects the password in the Secret."
  password=$(cat "$copy/$2" && printf .) || return 1 # the dot keeps a line break at the end
  password=${password%.}
  case $password in
  *[[:cntrl:]]*) echo "The password in the Secret has a control character, and is not set." ;;
  *) printf '%s\n%s\n' "$password" "$password" | ask postgres --set=role="$1" --command='\password :"role"' >/dev/null 2>&1 ;;
  esac
}

# set_password sets the password with which a role can log in. Its argument is owner, alternate1 or alternate2.
set_password() {
  [ "$(cat "$copy/$1.login")" = Password ] || return 0
  name=$(cat "$copy/$1") || return 1
  [ "$1" = owner ] || make_alternate "$name" || return 1
  change_password "$name" "$1.password" || return 1
  ask postgres --set=role="$name" >/dev/null <<'SQL'
ALTER ROLE :"role" LOGIN;
SQL
}
