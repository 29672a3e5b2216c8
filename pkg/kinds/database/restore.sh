# This script restores the backup of a Database into the empty volume of another one. It then waits, until the operator
# replaces its Pod with the Pod of the server. Environment variables:
#
#   BACKUP            root of the volume with the backups: see backup.sh
#   PGDATA            directory of the data, below the root of the volume of the Database
#   STATE             directory that stays when the container restarts
#   TARGET            time to which to restore, in the format of RFC 3339; empty for the latest time
#   DATABASE          database that the restored server must have
#   RESTORE           identifies the Database and the restore
#   KEEP              not empty if the script may leave data on the volume as it is, and restore nothing
#   TERMINATION_LOG   file for the message that the operator shows if this script fails
set -eu
umask 077
LC_ALL=C
export LC_ALL

root=$(dirname "$PGDATA")
marker=$root/windlass.restored # what was restored to the volume
new=$PGDATA.restoring
major=$(postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
readonly root marker new major
damaged=

say() { echo "$*" >&2; }

# flush writes the file system of the volume to the disk.
flush() { sync -f "$root" 2>/dev/null || sync; }

# fail ends the script with a message. The message must not contain secrets.
fail() {
  say "$*"
  printf '%s' "$*" >"$TERMINATION_LOG"
  exit 1
}

fail_if_full() {
  free=$(df -Pk "$root" | sed -n 's/.* \([0-9][0-9]*\)  *[0-9][0-9]*%.*/\1/p')
  [ "${free:-1024}" -ge 1024 ] || fail "The volume is too small for the data of the backup. Increase storage.size."
}

# rest waits until the container is stopped. The readiness probe succeeds.
rest() {
  : >"$STATE/restored"
  trap 'exit 0' INT TERM
  while :; do
    sleep 3600 &
    wait $! || true
  done
}

# sorted_bases prints the directories of all complete base backups, the newest first.
sorted_bases() {
  for dir in "$BACKUP"/*/base/[0-9]*; do
    [ ! -s "$dir/end" ] || echo "${dir##*/} $dir"
  done | sort -rn | cut -d ' ' -f 2-
}

# unpack unpacks a base backup, and compares all files with its manifest. If the base backup is damaged, unpack sets
# damaged, and fails.
unpack() {
  say "Unpacking the base backup ${1#"$BACKUP"/}."
  rm -rf "$new" && mkdir "$new" "$new/pg_wal" || fail "The volume cannot be written."
  what=
  for archive in base pg_wal; do
    into=$new
    [ "$archive" = base ] || into=$new/pg_wal
    if [ -z "$what" ] && ! tar -xzf "$1/$archive.tar.gz" -C "$into" 2>"$STATE/error"; then
      fail_if_full
      what="$archive.tar.gz cannot be unpacked"
    fi
  done
  held=$(cat "$new/PG_VERSION" 2>/dev/null) || held=''
  [ -z "$held" ] || [ "$held" = "$major" ] ||
    fail "The backup has data of PostgreSQL $held, which PostgreSQL $major of this image cannot read. Create a Database of version $held."
  if [ -z "$what" ] && ! pg_verifybackup --manifest-path="$1/backup_manifest" "$new" >"$STATE/error" 2>&1; then
    what=$(sed -n 's/.*error: *//p' "$STATE/error" | head -n 1 | cut -c 1-300)
    what=${what:-it differs from its manifest}
  fi
  [ -n "$what" ] || return 0
  cat "$STATE/error" >&2
  damaged="The base backup ${1#"$BACKUP"/} is damaged: $what."
  say "$damaged"
  return 1
}

# choose unpacks the newest base backup that ended before the time to which to restore. If it is damaged, choose takes
# an older one of the same series, whose write-ahead log leads to the same time.
choose() {
  until=9999999999
  [ -z "$TARGET" ] || until=$(date -d "$TARGET" +%s 2>/dev/null) ||
    until=$(date -u -D '%Y-%m-%dT%H:%M:%SZ' -d "$TARGET" +%s) || fail "The time $TARGET is not valid."
  sorted_bases >"$STATE/bases"
  [ -s "$STATE/bases" ] || fail "The volume has no complete base backup, so there is nothing to restore."
  series='' oldest=''
  while IFS= read -r candidate; do
    oldest=$(cat "$candidate/end")
    [ "$oldest" -le "$until" ] || continue
    of=${candidate%/base/*}
    [ -z "$series" ] || [ "$of" = "$series" ] || break
    series=$of base=$candidate
    if unpack "$candidate"; then return; fi
  done <"$STATE/bases"
  [ -z "$damaged" ] || fail "$damaged No older base backup leads to the same time. Request an earlier time."
  oldest=$(date -u -d "@$oldest" +%Y-%m-%dT%H:%M:%SZ)
  fail "No base backup is older than $TARGET. The oldest base backup ended at $oldest. Request a later time."
}

# recover starts the server without network access, and waits until it has replayed the write-ahead log. If the server
# ends, recover sets why, and fails.
recover() {
  set --
  if [ -n "$TARGET" ]; then # the server knows the abbreviation Z only later
    set -- -c "recovery_target_time=$(echo "$TARGET" | tr 'TZ' ' +')00" -c recovery_target_action=promote
  fi
  postgres -D "$new" -c config_file="$STATE/empty.conf" -c hba_file="$STATE/hba.conf" -c listen_addresses= \
    -c unix_socket_directories="$STATE" -c hot_standby=off -c ssl=off -c archive_mode=off -c logging_collector=off \
    -c log_destination=stderr -c lc_messages=C -c shared_preload_libraries= -c recovery_target_timeline=current \
    -c port=5432 -c max_prepared_transactions="$((prepared + 1000))" \
    -c max_locks_per_transaction="$((locks + 64))" \
    -c restore_command="sh $STATE/fetch '$series/wal' %f %p" "$@" 2>"$STATE/recovery.log" &
  server=$!
  until pg_isready --quiet --host="$STATE" --port=5432 --username=postgres --dbname=postgres; do
    if ! kill -0 "$server" 2>/dev/null; then
      cat "$STATE/recovery.log" >&2
      why=$(sed -n -e 's/.*FATAL: *//p' -e 's/.*PANIC: *//p' "$STATE/recovery.log" |
        grep -v '^the database system is ' | head -n 1 | cut -c 1-500) || true
      fail_if_full
      return 1
    fi
    sleep 1
  done
  cat "$STATE/recovery.log" >&2
}

fail_to_recover() {
  why=${why:-its log says why}
  fail "PostgreSQL does not recover from the backup: $why."
}

# replay recovers to the time to which to restore. If no transaction is as new as this time, the server rejects the
# time, and replay recovers to the end of the write-ahead log.
replay() {
  printf 'local all all trust\n' >"$STATE/hba.conf"
  : >"$STATE/empty.conf"
  # The script also copies the histories of other series, so that the server chooses a timeline that no series has. It
  # looks twice for the complete segment, because pg_receivewal may rename the file between the checks. An exit code
  # above 125 ends the recovery.
  cat >"$STATE/fetch" <<'EOF'
wal=$1 name=$2 into=$3
take() { cp "$1" "$into" || exit 126; exit 0; }
case $name in
*.history) for file in "$wal"/../../*/wal/"$name"; do [ ! -e "$file" ] || take "$file"; done ;;
esac
[ ! -e "$wal/$name" ] || take "$wal/$name"
if [ -e "$wal/$name.partial" ] && [ "$(($(wc -c <"$wal/$name.partial")))" = 16777216 ]; then
  cp "$wal/$name.partial" "$into" && exit 0
  [ ! -e "$wal/$name.partial" ] || exit 126
fi
[ ! -e "$wal/$name" ] || take "$wal/$name"
exit 1
EOF
  rm -f "$new"/windlass.* # the settings of the other Database
  mv "$new/postgresql.auto.conf" "$STATE/" && : >"$new/postgresql.auto.conf"
  rm -f "$STATE/streamed"
  if [ -e "$series/streamed" ]; then cp "$series/streamed" "$STATE/streamed"; fi # the backup may be written meanwhile
  prepared=$(pg_controldata "$new" | sed -n 's/^max_prepared_xacts setting: *//p')
  locks=$(pg_controldata "$new" | sed -n 's/^max_locks_per_xact setting: *//p')
  : >"$new/recovery.signal"
  chmod 0700 "$new"
  say "Replaying the write-ahead log of ${series#"$BACKUP"/}."
  whole='' requested=''
  [ -n "$TARGET" ] || whole=yes
  if ! recover; then
    [ -n "$TARGET" ] && grep -q 'before configured recovery target was reached' "$STATE/recovery.log" ||
      fail_to_recover
    say "No transaction is as new as $TARGET."
    whole=yes requested=$TARGET TARGET=''
    recover || fail_to_recover
  fi
}

ask() {
  PGOPTIONS='-c search_path=pg_catalog -c role=none -c session_preload_libraries= -c local_preload_libraries=' \
    psql --host="$STATE" --port=5432 --username=postgres --dbname=postgres --no-psqlrc --quiet --tuples-only \
    --no-align --field-separator=' ' --set=ON_ERROR_STOP=on --set=database="$DATABASE" --set=requested="$requested"
}

# check fails if the server lacks the database, or has not replayed the whole write-ahead log.
check() {
  replayed=$(ask <<'EOF'
SELECT lsn - '0/0', coalesce(to_char(last AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '-'),
  coalesce(to_char(last AT TIME ZONE 'UTC' + '1 s', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '-'),
  CASE WHEN :'requested' = '' THEN '-' WHEN last > nullif(:'requested', '')::timestamptz THEN 'beyond'
    WHEN last + '1 s' >= nullif(:'requested', '')::timestamptz THEN 'at' ELSE 'before' END
FROM pg_last_wal_replay_lsn() lsn, pg_last_xact_replay_timestamp() last;
EOF
  ) || fail "The restored server does not respond."
  read -r offset last next place <<EOF
$replayed
EOF
  if [ "$last" = - ]; then # no transaction after the base backup
    ended=$(cat "$base/end")
    last=$(date -u -d "@$ended" +%Y-%m-%dT%H:%M:%SZ) next=$(date -u -d "@$((ended + 1))" +%Y-%m-%dT%H:%M:%SZ)
    if [ -n "$requested" ] && [ "$until" -le "$((ended + 1))" ]; then place=at; fi
  fi
  [ "$place" != beyond ] || fail "Transactions after $requested were written to the backup meanwhile. The restore begins again."
  [ -z "$whole" ] || check_end
  [ -z "$whole" ] || [ "$place" = at ] || check_gap
  names=$(ask <<'EOF'
SELECT CASE WHEN bool_or(datname = :'database') THEN ''
  ELSE coalesce(string_agg(left(quote_ident(datname), 100), ', '), 'postgres') END
FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres';
EOF
  ) || fail "The restored server does not respond."
  names=$(printf '%s' "$names" | tr -d '\000-\037\177' | cut -c 1-500)
  [ -z "$names" ] || fail "The backup has no database with the name in databaseName. It has: $names."
}

# check_end fails if the write-ahead log continues after the last record that the server has replayed: the server ends
# the recovery without an error at a damaged record or a missing segment. The file "streamed" has the last segment and
# the position up to which the write-ahead log was streamed. Only at the end of a page can this position be within a
# record.
check_end() {
  segment='' streamed=0
  if [ -e "$STATE/streamed" ]; then read -r segment streamed <"$STATE/streamed" || true; fi
  timeline=${series##*/}
  timeline=${timeline#*-}
  timeline=${timeline%%-*}
  at=$(name_of "$offset")
  [ -n "$segment" ] || return 0
  [ -e "$series/wal/$segment" ] || [ -e "$series/wal/$segment.partial" ] || lose "$segment"
  # PostgreSQL 14 does not say which position is stored.
  [ "$streamed" != 0 ] || streamed=$(start_of "$segment")
  [ "$streamed" -gt "$offset" ] || return 0
  [ "$((streamed % 8192))" = 0 ] || lose "$at"
  rm -rf "$STATE/wal" && mkdir "$STATE/wal" || fail "The node has no space."
  for file in "$series"/wal/*; do
    name=${file##*/}
    ln -sf "$file" "$STATE/wal/${name%.partial}"
  done
  # A record is found after the start of one of the next pages, unless only an incomplete record follows.
  for pages in 1 2 3 4; do
    page=$(((offset / 8192 + pages) * 8192))
    if [ "$page" -lt "$streamed" ] && continues_at "$page"; then lose "$at"; fi
  done
  for file in "$STATE"/wal/*; do
    name=${file##*/}
    case $name in *[!0-9A-F]*) continue ;; esac
    page=$(start_of "$name")
    if [ "$page" -gt "$offset" ] && [ "$page" -lt "$streamed" ] && continues_at "$page"; then lose "$at"; fi
  done
}

# check_gap fails if another series follows: the transactions between the two series are missing.
check_gap() {
  for other in "$BACKUP"/*-*-*; do
    [ "${other##*-}" -le "${series##*-}" ] || fail "The backup has a gap after $last: it fell so far behind the server that it began again, or the server was replaced. To restore the data until then, request the time $next."
  done
}

# name_of prints the name of the segment with a position.
name_of() { printf '%08X%08X%08X' "$timeline" "$(($1 >> 32))" "$(($1 >> 24 & 255))"; }

# start_of prints the position of the start of a segment.
start_of() {
  numbers=${1#????????}
  echo "$(((0x${numbers%????????} << 32) + (0x${numbers#????????} << 24)))"
}

# continues_at succeeds if the write-ahead log has a valid record after a position.
continues_at() {
  found=$(pg_waldump --path="$STATE/wal" --timeline="$timeline" --limit=1 \
    --start="$(printf '%X/%X' "$(($1 >> 32))" "$(($1 & 4294967295))")" 2>/dev/null) || true
  case $found in *'rmgr:'*) return 0 ;; esac
  return 1
}

# lose fails because of a segment, its argument.
lose() {
  segment=${series#"$BACKUP"/}/wal/$1
  fail "The write-ahead log of the backup is damaged or incomplete. Recovery ends in $segment, after the transactions until $last. To restore the data until then, request the time $last."
}

rm -f "$STATE/restored"
if [ -e "$PGDATA" ]; then
  if [ "$(head -n 1 "$marker" 2>/dev/null)" = "$RESTORE" ]; then say "The backup was restored before." && rest; fi
  if [ -n "$KEEP" ]; then say "The volume has data. Nothing is restored." && rest; fi
  fail "The volume has other data, which a restore never overwrites. To use this data, remove restoreFrom, and delete the StatefulSet of the Database. To restore the backup, create a Database with another name."
fi

exec 9>"$root/lock"
! command -v flock >/dev/null || flock -n 9 || fail "Another server uses the volume. Look for another Pod that mounts the PersistentVolumeClaim."
choose
replay
check
kill -INT "$server"
wait "$server" || fail "The restored server does not stop."
result="Restored ${base#"$BACKUP"/}, with all transactions until $last."
mv "$STATE/postgresql.auto.conf" "$new/" && printf '%s\n%s\n' "$RESTORE" "$result" >"$marker.new" &&
  mv "$marker.new" "$marker" && flush && mv "$new" "$PGDATA" && flush || fail "The volume cannot be written."
say "${damaged:+$damaged }$result"
exec 9>&-
rest
