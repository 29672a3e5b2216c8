# This script runs PostgreSQL on the volume of a Database. It applies the settings in the mounted Secret before clients
# can connect, and again whenever the Secret changes. It restarts PostgreSQL only for a parameter that takes effect only
# at a start. The arguments of the script are the arguments of the server. Environment variables:
#
#   PGDATA            directory of the data, below the root of the volume
#   PGHOST            directory of the socket
#   PGPORT            port
#   PGSERVICEFILE     file with the database for psql that a user runs
#   SETTINGS          directory of the Secret, whose files have no line break at the end. The kubelet replaces the link
#                     ..data in it, so that all files change at once:
#     revision          identifies the content of the other files
#     database          database to create
#     owner             role that owns the database
#     attributes        attributes of the owner, in SQL
#     owner.login       whether the owner can log in: Password (with owner.password), Keep (as before) or None
#     alternate1        role that is a member of the owner and acts as the owner; alternate1.login is like owner.login
#     alternate2        another such role
#     parameters        parameters of the server, a line NAME=VALUE for each
#     tls.crt           certificate of the server, and of its issuers; without this file, the server has no TLS
#     tls.key           key of the certificate
#     backup.password   password of the role with which the backup replicates; without this file, there is no backup
#     updatePolicy      Automatic, or Manual: do not restart the server for a parameter
#   STATE             directory, in memory, for a copy of the settings
#   TERMINATION_LOG   file for the message that the operator shows if this script fails
#
# The parameters windlass.revision and windlass.problem tell clients which settings the server has, and which it could
# not apply. The parameter windlass.volume has the percentage of the volume that is used, as a threshold of volume.sh,
# and the size of the volume in KiB.
set -eu
umask 077
unset PGSERVICE # this script names the database of each connection
trap 'exit 1' INT TERM

started=$PGDATA/windlass.started   # the parameters of the last successful start
accepted=$PGDATA/windlass.accepted # the parameters of the last successful start or reload
failed=$PGDATA/windlass.failed     # the parameters with which the server did not start
system_parameters=$PGDATA/postgresql.auto.conf
copy=$STATE/settings
readonly started accepted failed system_parameters copy

# fail ends the script with a message. The message must not contain secrets.
fail() {
  echo "$*" >&2
  printf '%s' "$*" >"$TERMINATION_LOG"
  exit 1
}

fail_if_full() {
  measure && [ "$free" -lt "$full_below" ] || return 0
  fail "The volume is full: $free of $size KiB are free. If storage.maxSize is above the size of the volume, the volume grows by itself. Otherwise, increase storage.size above the size of the volume."
}

fail_to_start() {
  fail_if_full
  fail "PostgreSQL does not start: $why."
}

fail_to_write() {
  fail_if_full
  fail "The parameters cannot be written to the volume."
}

# make_directory creates the data directory under another name and then renames it, so that an
# interrupted start leaves no incomplete directory.
make_directory() {
  rmdir "$PGDATA" 2>/dev/null || true # an empty directory has no data
  [ ! -e "$PGDATA.restoring" ] || fail "The volume has an incomplete restore of a backup. Delete the StatefulSet and the claim, and request the restore again."
  [ ! -e "$PGDATA" ] || fail "The volume has other files than the data of PostgreSQL in $PGDATA. Check these files. For an empty volume, create a Database with another name."
  rm -rf "$PGDATA.new"
  initdb --pgdata="$PGDATA.new" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --data-checksums \
    --auth-local=trust --auth-host=scram-sha-256 >/dev/null || fail "PostgreSQL cannot initialize the volume; its log says why."
  mv "$PGDATA.new" "$PGDATA"
  sync "$(dirname "$PGDATA")"
}

# take copies the settings, and reads them into variables. It fails if the kubelet replaces the settings at the same
# time.
take() {
  rm -rf "$copy" && mkdir "$copy" || return 1
  taken=$(cat "$SETTINGS/revision") || return 1
  cp "$SETTINGS/..data/"* "$copy/" || return 1
  [ "$(cat "$SETTINGS/revision")" = "$taken" ] || return 1
  database=$(cat "$copy/database") && owner=$(cat "$copy/owner") && attributes=$(cat "$copy/attributes") &&
    alternate1=$(cat "$copy/alternate1") && alternate2=$(cat "$copy/alternate2") && policy=$(cat "$copy/updatePolicy") || return 1
  revision=$taken problem=
  printf '[windlass]\ndbname=%s\n' "$database" >"$PGSERVICEFILE"
}

# note_problem adds a sentence to the problems that the operator shows. The sentence must not contain secrets.
note_problem() {
  echo "$1" >&2
  problem=${problem:+$problem }$1
}

# start_without_network starts the server without network access, and copies its log to a file. If the server does not
# start, start_without_network sets why to the last FATAL or PANIC message of the server, and fails. It ignores messages
# such as "the database system is starting up", with which a starting server rejects connections.
start_without_network() {
  log=$PGHOST/start.log
  rm -f "$log" "$log.pipe"
  mkfifo "$log.pipe"
  tee "$log" <"$log.pipe" >&2 &
  copying=$!
  postgres "$@" -c config_file="$PGDATA/windlass.conf" -c listen_addresses= 2>"$log.pipe" &
  server=$!
  trap 'kill -INT "$server" 2>/dev/null && wait "$server"' EXIT
  silent=0
  until pg_isready --quiet --username=postgres --dbname=postgres; do
    [ $? = 1 ] || silent=$((silent + 1)) # pg_isready returns 1 while the server recovers
    if [ "$silent" -gt 600 ]; then
      stop_without_network || true
      why="it does not respond at its socket"
      return 1
    fi
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

# end_copying waits up to 2 s for the copy of the log. A process of the server that has not ended could keep the pipe
# open for longer.
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

# ask runs psql as the superuser, through the socket. Its first argument is the name of the database, and the others are
# arguments of psql. It overrides settings that could change the result or make a statement fail, because the owner of
# the database can change such settings. The name of the database is in an environment variable, because psql could
# interpret an argument as a connection string.
ask() {
  asked=$1
  shift
  options="-c session_preload_libraries= -c local_preload_libraries= -c role=none -c search_path=pg_catalog"
  options="$options -c default_transaction_read_only=off -c exit_on_error=off -c client_min_messages=error"
  options="$options -c password_encryption=scram-sha-256 -c statement_timeout=0 -c lock_timeout=$lock_timeout"
  PGDATABASE=$asked PGCLIENTENCODING=UTF8 PGOPTIONS=$options \
    psql --username=postgres --no-psqlrc --quiet --tuples-only --no-align \
    --set=ON_ERROR_STOP=on --set=owner="$owner" --set=attributes="$attributes" --set=alternate1="$alternate1" \
    --set=alternate2="$alternate2" --set=database="$database" --set=mark='Windlass keeps this role' "$@"
}

# restore_system_parameters restores the parameters of ALTER SYSTEM if the script was killed in
# start_without_system_parameters.
restore_system_parameters() {
  [ ! -e "$system_parameters.left" ] || mv "$system_parameters.left" "$system_parameters"
}

# start_without_system_parameters is called if the server does not start. It starts the server without the parameters
# that a superuser has set with ALTER SYSTEM. If there are none, or if the server does not start without them either, it
# fails.
start_without_system_parameters() {
  fail_if_full
  grep -q '^[^#]' "$system_parameters" 2>/dev/null || fail_to_start
  cause=$why
  mv "$system_parameters" "$system_parameters.left" && printf '' >"$system_parameters" || fail_to_write
  if ! start_without_network "$@"; then
    restore_system_parameters || fail_to_write
    fail_to_start
  fi
  mv "$system_parameters.left" "$system_parameters.rejected" || fail_to_write
  note_problem "PostgreSQL does not start with the parameters that ALTER SYSTEM has set, and runs without them: $cause. Set the valid ones again: they are in the file postgresql.auto.conf.rejected of the data directory. Then restart PostgreSQL with the annotation windlass.dev/restart."
  configure || fail_to_write
}

# start starts the server without network access, applies the settings, and starts the server again with network access.
# If the server does not start with the new parameters, start uses the parameters of the last start. If the settings
# cannot be applied to a server that has run before, the server runs with the previous settings.
start() {
  lock_timeout=10s
  rm -f "$STATE/looked" # without this file, the liveness probe succeeds
  release
  if has_released; then level=100 written_size=0; fi
  update_volume || true
  restore_system_parameters && configure || fail_to_write
  if ! start_without_network "$@"; then
    if [ -e "$started" ] && ! cmp -s "$STATE/parameters" "$started"; then
      note_problem "PostgreSQL does not start with the new parameters, and runs with the previous parameters: $why."
      record "$failed" && cp "$started" "$STATE/parameters" && configure || fail_to_write
      start_without_network "$@" || start_without_system_parameters "$@"
    else
      start_without_system_parameters "$@"
    fi
  fi
  if ! prepare; then
    [ -e "$started" ] || fail "$why"
    note_problem "$why"
    configure || fail_to_write
  fi
  record "$accepted" && record "$started" || fail_to_write
  stop_without_network
  postgres "$@" -c config_file="$PGDATA/windlass.conf" &
  server=$!
}

# stop stops the server. It closes the connections of clients.
stop() {
  kill -INT "$server" 2>/dev/null || true
  while kill -0 "$server" 2>/dev/null; do wait "$server" || true; done
}

# apply applies the settings that take has read to the running server. It fails if the script must call it again.
apply() {
  lock_timeout=5s
  choose_parameters || return 1
  again=
  prepare || { again=1 && note_problem "$why"; }
  reload_safely || { note_problem "$why" && return 1; }
  pending=$(ask_parameters pending) && rejected=$(ask_parameters rejected) || return 1
  if [ -n "$rejected" ]; then
    rejected=$(printf '%s' "$rejected" | tr '\n' ' ')
    note_problem "PostgreSQL does not apply $rejected; its log says why."
    configure && reload || return 1
  fi
  record_reload $pending || return 1 # not quoted, because the names have no spaces
  if [ -n "$pending" ] && [ "$policy" = Automatic ] && [ -z "$again" ] && ! cmp -s "$STATE/parameters" "$started"; then
    echo "Restarting PostgreSQL, because a parameter takes effect only at a start."
    stop
    start "$@"
  fi
  [ -z "$again" ]
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
chmod 0700 "$PGDATA" # because of fsGroup, the kubelet makes the directory group-writable when it mounts the volume

rm -f "$failed" # each container tries these parameters once
tried=0
until take && choose_parameters; do
  tried=$((tried + 1))
  [ "$tried" -lt 60 ] || fail "The settings of the Database cannot be read."
  sleep 1
done
start "$@"
printf '%s' "$revision" >"$STATE/applied"
trap 'stop && exit 0' INT TERM

# Look for new settings every second, and at the volume every 5 seconds, until the server ends. After a failure, try
# again in 5 seconds.
applied=$revision wait=0 seconds=0
while kill -0 "$server" 2>/dev/null; do
  sleep 1 &
  wait $! || true
  [ "$wait" = 0 ] || wait=$((wait - 1))
  seconds=$(((seconds + 1) % 5))
  if [ "$seconds" = 0 ] && update_volume; then kill -HUP "$server" 2>/dev/null || true; fi
  if [ "$seconds" = 0 ] || [ "$level" -ge 80 ]; then limit_slot; fi
  now=
  IFS= read -r now 2>/dev/null <"$SETTINGS/revision" || true
  printf '%s' "$now" 2>/dev/null >"$STATE/looked" || true # the liveness probe reads this file
  if [ -n "$now" ] && [ "$now" != "$applied" ] && [ "$wait" = 0 ] &&
    pg_isready --quiet --username=postgres --dbname=postgres && take; then
    if apply "$@"; then applied=$revision; else wait=5; fi
    printf '%s' "$revision" 2>/dev/null >"$STATE/applied" || true
  fi
done
wait "$server"
