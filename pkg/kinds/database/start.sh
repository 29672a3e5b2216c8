# Starts PostgreSQL on the volume. First it starts the server without network access, and applies
# the settings of the Database and the password in the Secret. Its arguments are the arguments of
# the server. Environment variables:
#
#   PGDATA            directory of the data, below the root of the volume
#   PGHOST            directory of the socket
#   PGPORT            port
#   PGDATABASE        database to create
#   OWNER             owner of the database
#   ATTRIBUTES        attributes of the owner, in SQL
#   PASSWORD_FILE     file with the password of the owner
#   TAKEN_FILE        file, in memory, for the password that the server has accepted
#   TERMINATION_LOG   file for the message that the operator shows if this script fails
set -eu
umask 077
trap 'exit 1' INT TERM

# fail ends the script with a message. The message must not contain secrets.
fail() {
  echo "$*" >&2
  printf '%s' "$*" >"$TERMINATION_LOG"
  exit 1
}

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

# start_without_network starts the server without network access, and copies its log to a file.
start_without_network() {
  log=$PGHOST/start.log
  rm -f "$log" "$log.pipe"
  mkfifo "$log.pipe"
  tee "$log" <"$log.pipe" >&2 &
  copying=$!
  postgres "$@" -c listen_addresses= 2>"$log.pipe" &
  server=$!
  trap 'kill -INT "$server" 2>/dev/null && wait "$server"' EXIT
  until pg_isready --quiet --username=postgres --dbname=postgres; do
    kill -0 "$server" 2>/dev/null || fail_to_start
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

# fail_to_start quotes the last FATAL or PANIC message of the server. It skips "the database system is
# starting up" and the like, with which a starting server rejects connections.
fail_to_start() {
  end_copying
  why=$(sed -n -e 's/.*FATAL: *//p' -e 's/.*PANIC: *//p' "$log" | grep -v '^the database system is ' | tail -n 1 | cut -c 1-500) || true
  [ -n "$why" ] || fail "PostgreSQL does not start; its log says why."
  fail "PostgreSQL does not start: $why."
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
  PGDATABASE=$asked PGOPTIONS='-c search_path=pg_catalog -c default_transaction_read_only=off -c password_encryption=scram-sha-256 -c statement_timeout=0 -c lock_timeout=0' \
    psql --username=postgres --no-psqlrc --quiet --tuples-only --no-align \
    --set=ON_ERROR_STOP=on --set=owner="$OWNER" --set=attributes="$ATTRIBUTES" --set=database="$PGDATABASE" "$@"
}

# prepare brings the role, the database and the password to their desired state.
prepare() {
  ask postgres >/dev/null <<'SQL' || fail "PostgreSQL rejects the role or the database; its log says why."
SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
ALTER ROLE :"owner" LOGIN :attributes VALID UNTIL 'infinity';
COMMENT ON ROLE :"owner" IS 'Windlass keeps this role';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'owner') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
ALTER DATABASE :"database" OWNER TO :"owner";
SQL
  # Former owners that this script has created transfer their objects in the database to the owner,
  # and can no longer log in.
  ask "$PGDATABASE" >/dev/null <<'SQL' || fail "PostgreSQL does not transfer the objects of a former owner; its log says why."
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner'), format('ALTER ROLE %I NOLOGIN NOCREATEDB NOCREATEROLE PASSWORD NULL', rolname)
  FROM pg_roles WHERE rolname <> :'owner' AND shobj_description(oid, 'pg_authid') = 'Windlass keeps this role' \gexec
SQL
  # The operator reports a password with a control character, and this script does not set it. psql
  # sends a SCRAM verifier in place of the password, so that no log of the server has the password.
  # Without a terminal, psql reads the password twice from its input.
  case $password in
  *[[:cntrl:]]*) echo "The password in the Secret has a control character, and is not set." ;;
  *)
    printf '%s\n%s\n' "$password" "$password" | ask postgres --command='\password :"owner"' >/dev/null 2>&1 ||
      fail "PostgreSQL rejects the password in the Secret."
    ;;
  esac
}

major=$(postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
rm -f "$TAKEN_FILE" # without this file, the liveness probe succeeds

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

password=$(cat "$PASSWORD_FILE" && printf .) # the dot keeps a line break at the end
password=${password%.}
start_without_network "$@"
prepare
stop_without_network

printf '%s' "$password" >"$TAKEN_FILE"
exec postgres "$@"
