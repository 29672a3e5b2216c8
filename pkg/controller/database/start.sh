# Starts PostgreSQL on the volume, and has it accept what the Secret says before it
# takes connections. The arguments are those of the server. It reads:
#
#   PGDATA            the directory of the data, below the volume's
#   PGHOST            the directory of the socket, and of what lasts as long as the Pod
#   PGPORT            the port
#   PGDATABASE        the database that there shall be
#   OWNER             its owner
#   PASSWORD_FILE     the owner's password
#   TERMINATION_LOG   where the operator finds why this ended
set -eu
umask 077
trap 'exit 1' INT TERM

# fail ends the start with a reason, which holds nothing secret.
fail() {
  echo "$*" >&2
  printf '%s' "$*" >"$TERMINATION_LOG"
  exit 1
}

# make_directory makes the data directory aside and moves it, so that a start which is
# cut off leaves nothing half made.
make_directory() {
  rmdir "$PGDATA" 2>/dev/null || true # an empty one is no data
  [ ! -e "$PGDATA" ] || fail "The volume has something else in $PGDATA than the data of PostgreSQL. It is left alone: look at it, or delete the claim."
  rm -rf "$PGDATA.new"
  initdb --pgdata="$PGDATA.new" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --data-checksums \
    --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  mv "$PGDATA.new" "$PGDATA"
  sync "$(dirname "$PGDATA")"
}

# ask has psql ask as the superuser, through the socket. What the user has set for the
# server may not get in its way.
ask() {
  PGOPTIONS='-c default_transaction_read_only=off -c password_encryption=scram-sha-256 -c statement_timeout=0 -c lock_timeout=0' \
    psql --username=postgres --dbname=postgres --no-psqlrc --quiet --tuples-only --no-align \
    --set=ON_ERROR_STOP=on --set=owner="$OWNER" --set=database="$PGDATABASE" "$@"
}

# prepare makes role, database and password what they shall be.
prepare() {
  ask >/dev/null <<'SQL'
SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
ALTER ROLE :"owner" LOGIN VALID UNTIL 'infinity';
COMMENT ON ROLE :"owner" IS 'Windlass keeps this role';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'owner') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
-- A role that owned the database before hands over what it owns. If it was made here, it can no
-- longer log in.
SELECT count(*) > 0 AS handover, max(rolname::text) AS former, coalesce(bool_or(rolsuper), false) AS super,
       coalesce(bool_or(shobj_description(r.oid, 'pg_authid') = 'Windlass keeps this role'), false) AS ours
  FROM pg_database JOIN pg_roles r ON datdba = r.oid WHERE datname = :'database' AND rolname <> :'owner' \gset
\if :handover
\connect :"database"
BEGIN;
ALTER DATABASE :"database" OWNER TO :"owner";
\if :super
\else
REASSIGN OWNED BY :"former" TO :"owner";
\endif
\if :ours
ALTER ROLE :"former" NOLOGIN PASSWORD NULL;
\endif
COMMIT;
\endif
SQL
  # psql sends what SCRAM makes of the password, so that no log of the server has it. Without a
  # terminal it reads the password, twice, from its input.
  printf '%s\n%s\n' "$password" "$password" | ask --command='\password :"owner"' >/dev/null 2>&1 ||
    fail "PostgreSQL does not take the password in the Secret."
}

major=$(postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
rm -f "$PGHOST/password.sum" # without it the liveness probe has nothing to say
[ -e "$PGDATA/PG_VERSION" ] || make_directory
held=$(cat "$PGDATA/PG_VERSION")
[ "$held" = "$major" ] || fail "The volume has data of PostgreSQL $held, which PostgreSQL $major of this image does not read. Give the Database an image of version $held."
chmod 0700 "$PGDATA" # the Pod's fsGroup opens it to the group when the volume is mounted
printf 'local all all trust\nhost all all all scram-sha-256\n' >"$PGDATA/pg_hba.conf"

# The server is started twice: first for prepare, with nobody else being able to connect.
password=$(cat "$PASSWORD_FILE")
postgres "$@" -c listen_addresses= &
server=$!
trap 'kill -INT "$server" 2>/dev/null && wait "$server"' EXIT
until pg_isready --quiet --username=postgres --dbname=postgres; do
  kill -0 "$server" 2>/dev/null || fail "PostgreSQL does not start; its log says why."
  sleep 0.1
done
prepare
trap - EXIT
kill -INT "$server"
wait "$server"

printf '%s' "$password" | sha256sum >"$PGHOST/password.sum"
exec postgres "$@"
