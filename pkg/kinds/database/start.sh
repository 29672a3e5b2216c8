# Starts PostgreSQL on the volume, and has it accept what the Secret says before it
# takes connections. The arguments are those of the server. It reads:
#
#   PGDATA            the directory of the data, below the volume's
#   PGHOST            the directory of the socket
#   PGPORT            the port
#   PGDATABASE        the database that there shall be
#   OWNER             its owner
#   ATTRIBUTES        what the owner may and may not do beyond that, in SQL
#   PASSWORD_FILE     the owner's password
#   TAKEN_FILE        where the password is noted, in memory, that the server has taken
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

# ask has psql ask a database as the superuser, through the socket. What the user has
# set for the server, or made in its databases, may not get in the way. The name goes
# by the environment: as an argument it could be taken for more than a name.
ask() {
  asked=$1
  shift
  PGDATABASE=$asked PGOPTIONS='-c search_path=pg_catalog -c default_transaction_read_only=off -c password_encryption=scram-sha-256 -c statement_timeout=0 -c lock_timeout=0' \
    psql --username=postgres --no-psqlrc --quiet --tuples-only --no-align \
    --set=ON_ERROR_STOP=on --set=owner="$OWNER" --set=attributes="$ATTRIBUTES" --set=database="$PGDATABASE" "$@"
}

# prepare makes role, database and password what they shall be.
prepare() {
  ask postgres >/dev/null <<'SQL' || fail "PostgreSQL does not make the role or the database; its log says why."
SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
ALTER ROLE :"owner" LOGIN :attributes VALID UNTIL 'infinity';
COMMENT ON ROLE :"owner" IS 'Windlass keeps this role';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'owner') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
ALTER DATABASE :"database" OWNER TO :"owner";
SQL
  # Former owners that were made here hand over what they own in the database, and can no longer
  # log in.
  ask "$PGDATABASE" >/dev/null <<'SQL' || fail "PostgreSQL does not hand over what a former owner has; its log says why."
SELECT format('REASSIGN OWNED BY %I TO %I', rolname, :'owner'), format('ALTER ROLE %I NOLOGIN NOCREATEDB NOCREATEROLE PASSWORD NULL', rolname)
  FROM pg_roles WHERE rolname <> :'owner' AND shobj_description(oid, 'pg_authid') = 'Windlass keeps this role' \gexec
SQL
  # One with a control character, of which the operator tells, is not taken. psql sends what
  # SCRAM makes of the others, so that no log of the server has them. Without a terminal it reads
  # the password, twice, from its input.
  case $password in
  *[[:cntrl:]]*) echo "The password in the Secret is not taken: it has a control character." ;;
  *)
    printf '%s\n%s\n' "$password" "$password" | ask postgres --command='\password :"owner"' >/dev/null 2>&1 ||
      fail "PostgreSQL does not take the password in the Secret."
    ;;
  esac
}

major=$(postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
rm -f "$TAKEN_FILE" # without it the liveness probe has nothing to say

# Two servers on one volume would destroy the data, and PostgreSQL cannot see one in
# another container. The lock lasts as long as any process of this one. Images without
# flock go without.
exec 9>"$(dirname "$PGDATA")/lock"
! command -v flock >/dev/null || flock -n 9 || fail "Another server has the volume: look for another Pod that mounts the claim."

[ -e "$PGDATA/PG_VERSION" ] || make_directory
held=$(cat "$PGDATA/PG_VERSION")
[ "$held" = "$major" ] || fail "The volume has data of PostgreSQL $held, which PostgreSQL $major of this image does not read. Give the Database an image of version $held."
chmod 0700 "$PGDATA" # the Pod's fsGroup opens it to the group when the volume is mounted
printf 'local all all trust\nhost all all all scram-sha-256\n' >"$PGDATA/pg_hba.conf"

# The server is started twice: first for prepare, with nobody else being able to connect.
password=$(cat "$PASSWORD_FILE" && printf .) # so that a line break at its end is seen
password=${password%.}
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

printf '%s' "$password" >"$TAKEN_FILE"
exec postgres "$@"
