# Runs PostgreSQL on the volume of a Database. It applies the settings in the mounted Secret before clients can connect,
# and again whenever the Secret changes, without a restart if PostgreSQL does not need one. Its arguments are the
# arguments of the server. Environment variables:
#
#   PGDATA            directory of the data, below the root of the volume
#   PGHOST            directory of the socket
#   PGPORT            port
#   PGSERVICEFILE     file that tells psql, run by hand, the database
#   SETTINGS          directory of the Secret, whose files have no line break at the end. The kubelet replaces the link
#                     ..data in it, so that all files change at once:
#     revision          identifies the content of the other files
#     database          database to create
#     owner             role that owns the database
#     attributes        attributes of the owner, in SQL
#     owner.login       whether the owner can log in: Password (with owner.password), Keep (as before) or None
#     alternate1        role that is a member of the owner and acts as it; with alternate1.login as for the owner
#     alternate2        the same
#     parameters        parameters of the server, a line NAME=VALUE for each
#     updatePolicy      Automatic, or Manual: do not restart the server for a parameter
#   STATE             directory, in memory, for a copy of the settings
#   TERMINATION_LOG   file for the message that the operator shows if this script fails
#
# The parameters windlass.revision and windlass.problem tell clients which settings the server has, and what is wrong.
set -eu
umask 077
unset PGSERVICE # this script connects to the database that it names
trap 'exit 1' INT TERM

accepted=$PGDATA/windlass.accepted # the parameters of the last start, and of reloads since
copy=$STATE/settings

# fail ends the script with a message. The message must not contain secrets.
fail() {
  echo "$*" >&2
  printf '%s' "$*" >"$TERMINATION_LOG"
  exit 1
}

fail_to_start() { fail "PostgreSQL does not start: $why."; }

fail_to_write() { fail "The parameters cannot be written to the volume."; }

# make_directory creates the data directory under another name and then renames it, so that an
# interrupted start leaves no incomplete directory.
make_directory() {
  rmdir "$PGDATA" 2>/dev/null || true # an empty directory has no data
  [ ! -e "$PGDATA" ] || fail "The volume has something else than the data of PostgreSQL in $PGDATA. Look at it, or delete the PersistentVolumeClaim."
  rm -rf "$PGDATA.new"
  initdb --pgdata="$PGDATA.new" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --data-checksums \
    --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  mv "$PGDATA.new" "$PGDATA"
  sync "$(dirname "$PGDATA")"
}

# take copies the settings, and reads them into variables. It fails if the kubelet replaces them meanwhile.
take() {
  rm -rf "$copy" && mkdir "$copy" || return 1
  taken=$(cat "$SETTINGS/revision") || return 1
  cp "$SETTINGS/..data/"* "$copy/" || return 1
  [ "$(cat "$SETTINGS/revision")" = "$taken" ] || return 1
  revision=$taken
  database=$(cat "$copy/database")
  owner=$(cat "$copy/owner")
  attributes=$(cat "$copy/attributes")
  alternate1=$(cat "$copy/alternate1")
  alternate2=$(cat "$copy/alternate2")
  policy=$(cat "$copy/updatePolicy")
  problem=
  printf '[windlass]\ndbname=%s\n' "$database" >"$PGSERVICEFILE"
}

# note_problem adds a sentence to the problems that the operator shows. It must not contain secrets.
note_problem() {
  echo "$1" >&2
  problem=${problem:+$problem }$1
}

# refusal succeeds if PostgreSQL refuses a parameter NAME=VALUE. It prints the error of PostgreSQL.
refusal() {
  if said=$(postgres -D "$PGDATA" -c config_file=/dev/null -c "$1" -C "${1%%=*}" 2>&1 >/dev/null); then return 1; fi
  said=$(printf '%s\n' "$said" | sed -n 's/.*FATAL: *//p' | head -n 1 | cut -c 1-500)
  printf '%s' "${said:-parameter \"${1%%=*}\" is invalid}"
}

# choose_parameters copies the parameters that PostgreSQL accepts. A parameter that it refuses keeps the value that
# it had, if any.
choose_parameters() {
  : >"$STATE/parameters"
  while IFS= read -r line || [ -n "$line" ]; do
    if ! grep -qxF -e "$line" "$accepted" 2>/dev/null && why=$(refusal "$line"); then
      [ -e "$accepted" ] || fail_to_start
      note_problem "PostgreSQL refuses a parameter: $why."
      line=$(grep -e "^$(printf '%s' "${line%%=*}" | sed 's/[.]/[.]/g')=" "$accepted") || continue
    fi
    printf '%s\n' "$line" >>"$STATE/parameters"
  done <"$copy/parameters"
}

# configure writes the configuration file, which the server reads at its next start or reload. postgresql.conf stays as it
# is, so that an earlier version of this script starts the server without these parameters.
configure() {
  said=$(printf '%s' "$problem" | tr -d '\000-\037\177' | cut -c 1-1000 | sed "s/[\\\\']/&&/g")
  echo "include 'postgresql.conf'" >"$PGDATA/windlass.conf.new" &&
    sed -e "s/[\\\\']/&&/g" -e "s/=/ = '/" -e "s/\$/'/" "$STATE/parameters" >>"$PGDATA/windlass.conf.new" &&
    printf "windlass.revision = '%s'\nwindlass.problem = '%s'\n" "$revision" "$said" >>"$PGDATA/windlass.conf.new" &&
    mv "$PGDATA/windlass.conf.new" "$PGDATA/windlass.conf"
}

# accept records the parameters with which the server has started, or that it has reloaded.
accept() {
  cp "$STATE/parameters" "$accepted.new" && mv "$accepted.new" "$accepted"
}

# start_without_network starts the server without network access, and copies its log to a file. If the server does not
# start, it sets why to its last FATAL or PANIC message, and fails. It skips "the database system is starting up" and
# the like, with which a starting server rejects connections.
start_without_network() {
  log=$PGHOST/start.log
  rm -f "$log" "$log.pipe"
  mkfifo "$log.pipe"
  tee "$log" <"$log.pipe" >&2 &
  copying=$!
  postgres "$@" -c config_file="$PGDATA/windlass.conf" -c listen_addresses= 2>"$log.pipe" &
  server=$!
  trap 'kill -INT "$server" 2>/dev/null && wait "$server"' EXIT
  until pg_isready --quiet --username=postgres --dbname=postgres; do
    if ! kill -0 "$server" 2>/dev/null; then
      trap - EXIT
      end_copying
      why=$(sed -n -e 's/.*FATAL: *//p' -e 's/.*PANIC: *//p' "$log" | grep -v '^the database system is ' | tail -n 1 | cut -c 1-500) || true
      why=${why:-its log says why}
      return 1
    fi
    sleep 0.1
  done
}

# end_copying waits up to 2 s for the copy of the log. A process that the server has left behind could
# hold the pipe open for longer.
end_copying() {
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 "$copying" 2>/dev/null || return 0
    sleep 0.1
  done
  kill "$copying" 2>/dev/null || true
}

# stop_without_network stops the server that start_without_network has started.
stop_without_network() {
  trap - EXIT
  kill -INT "$server"
  wait "$server"
  end_copying
  rm -f "$log" "$log.pipe"
}

# ask runs psql as the superuser, through the socket. It overrides settings of the server and of the
# database that could change the result. The name of the database is in an environment variable,
# because psql could interpret an argument as more than a name.
ask() {
  asked=$1
  shift
  PGDATABASE=$asked PGOPTIONS="-c search_path=pg_catalog -c default_transaction_read_only=off -c password_encryption=scram-sha-256 -c statement_timeout=0 -c lock_timeout=$lock_timeout" \
    psql --username=postgres --no-psqlrc --quiet --tuples-only --no-align \
    --set=ON_ERROR_STOP=on --set=owner="$owner" --set=attributes="$attributes" --set=alternate1="$alternate1" \
    --set=alternate2="$alternate2" --set=database="$database" --set=mark='Windlass keeps this role' "$@"
}

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
  # Former owners that this script has created transfer their objects in the database to the owner,
  # and can no longer log in.
  why="PostgreSQL does not transfer the objects of a former owner; its log says why."
  ask "$database" >/dev/null <<'SQL' || return 1
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner'), format('ALTER ROLE %I NOLOGIN NOCREATEDB NOCREATEROLE PASSWORD NULL', rolname)
  FROM pg_roles WHERE rolname NOT IN (:'owner', :'alternate1', :'alternate2') AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
SQL
  set_login owner && set_login alternate1 && set_login alternate2
}

# make_alternate makes a role a member of the owner that acts as it, so that objects belong to the owner whichever of its
# logins has created them. It copies the settings of the owner, because PostgreSQL applies those of the login.
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
  # Each value is set by a function, because the text of a value could be more than a value in SQL.
  ask postgres --set=role="$1" >/dev/null <<'SQL'
BEGIN;
SELECT format('CREATE ROLE %I', :'role') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec
COMMENT ON ROLE :"role" IS :'mark';
ALTER ROLE :"role" INHERIT NOCREATEDB NOCREATEROLE VALID UNTIL 'infinity';
SELECT format('GRANT %I TO %I', :'owner', :'role') || CASE WHEN current_setting('server_version_num')::int >= 160000 THEN ' WITH INHERIT TRUE, SET TRUE' ELSE '' END \gexec
SELECT format('ALTER ROLE %I%s RESET ALL', :'role', coalesce(' IN DATABASE ' || quote_ident(datname), ''))
  FROM pg_db_role_setting JOIN pg_roles ON pg_roles.oid = setrole LEFT JOIN pg_database ON pg_database.oid = setdatabase
  WHERE rolname = :'role' \gexec
SELECT format('SELECT pg_catalog.set_config(%L, %L, true)', split_part(setting, '=', 1), substr(setting, strpos(setting, '=') + 1)),
    format('ALTER ROLE %I%s SET %I FROM CURRENT', :'role', coalesce(' IN DATABASE ' || quote_ident(datname), ''), split_part(setting, '=', 1))
  FROM pg_db_role_setting JOIN pg_roles ON pg_roles.oid = setrole LEFT JOIN pg_database ON pg_database.oid = setdatabase, unnest(setconfig) setting
  WHERE rolname = :'owner' AND split_part(setting, '=', 1) <> 'role' \gexec
ALTER ROLE :"role" SET role = :'owner';
COMMIT;
SQL
}

# set_login lets a role log in, or not. Its argument is owner, alternate1 or alternate2.
#
# The operator reports a password with a control character, and this script does not set it. psql sends a SCRAM verifier
# in place of the password, so that no log of the server has the password. Without a terminal, psql reads the password
# twice from its input.
set_login() {
  role=$(cat "$copy/$1")
  case $(cat "$copy/$1.login") in
  Password)
    [ "$1" = owner ] || make_alternate "$role" || return 1
    why="PostgreSQL rejects the password in the Secret."
    password=$(cat "$copy/$1.password" && printf .) # the dot keeps a line break at the end
    password=${password%.}
    case $password in
    *[[:cntrl:]]*) echo "The password in the Secret has a control character, and is not set." ;;
    *) printf '%s\n%s\n' "$password" "$password" | ask postgres --set=role="$role" --command='\password :"role"' >/dev/null 2>&1 || return 1 ;;
    esac
    ask postgres --set=role="$role" >/dev/null <<'SQL' || return 1
ALTER ROLE :"role" LOGIN;
SQL
    ;;
  None)
    why="PostgreSQL does not end the logins of a former password; its log says why."
    ask "$database" --set=role="$role" >/dev/null <<'SQL' || return 1
SELECT format('ALTER ROLE %I NOLOGIN PASSWORD NULL', rolname) FROM pg_roles WHERE rolname = :'role' AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_roles ON usesysid = pg_roles.oid
  WHERE rolname = :'role' AND NOT rolcanlogin AND backend_type = 'client backend';
SQL
    ;;
  esac
  [ "$1" = owner ] || reassign "$role"
}

# reassign gives the owner what an alternate has created in a session that did not act as the owner, as after DISCARD ALL.
reassign() {
  why="PostgreSQL does not transfer the objects of a login to the owner; its log says why."
  ask "$database" --set=role="$1" >/dev/null <<'SQL'
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner') FROM pg_roles
  WHERE rolname = :'role' AND shobj_description(oid, 'pg_authid') = :'mark' \gexec
SQL
}

# start starts the server: first without network access, to apply the settings, and then with it. If the server does
# not start with its parameters, start falls back to the parameters of the last start.
start() {
  lock_timeout=0
  rm -f "$STATE/revision" # without this file, the liveness probe succeeds
  configure || fail_to_write
  if ! start_without_network "$@"; then
    [ -e "$accepted" ] && ! cmp -s "$STATE/parameters" "$accepted" || fail_to_start
    note_problem "PostgreSQL does not start with the parameters, and runs with the former ones: $why."
    cp "$accepted" "$STATE/parameters" && configure || fail_to_write
    start_without_network "$@" || fail_to_start
  fi
  prepare || fail "$why"
  accept || fail_to_write
  stop_without_network
  postgres "$@" -c config_file="$PGDATA/windlass.conf" &
  server=$!
  printf '%s' "$revision" >"$STATE/revision"
}

# stop stops the server. It closes the connections of clients.
stop() {
  kill -INT "$server" 2>/dev/null || true
  while kill -0 "$server" 2>/dev/null; do wait "$server" || true; done
}

# reload makes the server read its parameters, and waits until new sessions have them.
reload() {
  why="PostgreSQL does not reload its parameters; its log says why."
  ask postgres --command='SELECT pg_reload_conf()' >/dev/null || return 1
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ "$(ask postgres --command='SHOW windlass.revision')" != "$revision" ] || return 0
    sleep 0.1
  done
  return 1
}

# count_pending prints how many parameters of the Database take effect only at the next start.
count_pending() {
  names=$(sed 's/=.*//' "$accepted" "$STATE/parameters" | tr '\n' ',')
  ask postgres --set=names="$names" <<'SQL'
SELECT count(*) FROM pg_settings WHERE pending_restart AND lower(name) = ANY (string_to_array(:'names', ','));
SQL
}

# apply brings the running server to the settings that take has read. It fails if it has to be tried again.
apply() {
  lock_timeout=5s
  choose_parameters
  failed=
  prepare || { failed=1 && note_problem "$why"; }
  configure || return 1
  reload || { note_problem "$why" && return 1; }
  pending=$(count_pending) || return 1
  if [ "$pending" = 0 ]; then
    accept || return 1
  elif [ "$policy" = Automatic ]; then
    echo "Restarting PostgreSQL, because a parameter takes effect only at a start."
    stop
    start "$@"
  fi
  [ -z "$failed" ]
}

major=$(postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
mkdir -p "$STATE"

# Two servers on one volume would destroy the data, and PostgreSQL does not detect a server in
# another container. The lock is held until all processes of this container have ended. An image
# without flock has no lock.
exec 9>"$(dirname "$PGDATA")/lock"
! command -v flock >/dev/null || flock -n 9 || fail "Another server uses the volume. Look for another Pod that mounts the PersistentVolumeClaim."

[ -e "$PGDATA/PG_VERSION" ] || make_directory
held=$(cat "$PGDATA/PG_VERSION")
[ "$held" = "$major" ] || fail "The volume has data of PostgreSQL $held, which PostgreSQL $major of this image cannot read. Give the Database an image of version $held."
chmod 0700 "$PGDATA" # the kubelet makes it group-writable when it mounts the volume, because of fsGroup
printf 'local all all trust\nhost all all all scram-sha-256\n' >"$PGDATA/pg_hba.conf"

until take; do sleep 1; done
choose_parameters
start "$@"
trap 'stop && exit 0' INT TERM

# Look for new settings every second, until the server ends. After a failure, try again in 5 seconds.
applied=$revision wait=0
while kill -0 "$server" 2>/dev/null; do
  sleep 1 &
  wait $! || true
  [ "$wait" = 0 ] || wait=$((wait - 1))
  now=
  IFS= read -r now 2>/dev/null <"$SETTINGS/revision" || true
  if [ -n "$now" ] && [ "$now" != "$applied" ] && [ "$wait" = 0 ] &&
    pg_isready --quiet --username=postgres --dbname=postgres && take; then
    if apply "$@"; then applied=$revision; else wait=5; fi
    printf '%s' "$revision" >"$STATE/revision" # for the liveness probe
  fi
done
wait "$server"
