# This script backs up the server of a Database to a volume: it streams the write-ahead log all the time, and takes base
# backups when the settings request one. Environment variables:
#
#   ROOT              root of the volume
#   SETTINGS          directory of the mounted Secret, whose files have no line break at the end:
#     host              name of the server
#     password          password of the role with which the script replicates
#     request           identifies the newest request of a base backup
#     requested         identifies the newest request of a user; a schedule does not change it
#     keep              number of base backups to keep
#   STATE             directory in memory
#   PGPASSFILE        file in STATE, to which the script writes the password
#   PGPORT, PGUSER, PGSSLMODE, PGSSLROOTCERT   how to connect
#
# A series is a directory of the volume with base backups and the write-ahead log after the first of them, without a
# gap. After a gap, the script begins another series. Files:
#
#   current                     name of the series to which the script writes
#   SERIES/wal/                 segments of the write-ahead log, as pg_receivewal writes them
#   SERIES/streamed             the newest segment and, from PostgreSQL 15 on, the position that is stored, as a number
#   SERIES/base/START/          base backup; its name is the time at which it began, in seconds since 1970
#     base.tar.gz, pg_wal.tar.gz, backup_manifest   as pg_basebackup writes them
#     end                       the time at which the base backup ended
#     request, requested        the requests that it answered
#   SERIES/base/new/, old/      base backup that is not complete, or that is being removed
#
# The script has no other way to report than its connections: it keeps a connection open whose application_name has the
# state, which every role of the server can read: see publish.
set -eu
umask 077
trap '' PIPE
LC_ALL=C
export LC_ALL

slot=windlass_backup
connection='replication=true connect_timeout=10 tcp_user_timeout=30000'
connection="$connection keepalives_idle=10 keepalives_interval=5 keepalives_count=3"
poll=2        # seconds between two iterations of the main loop
minimum=32768 # KiB: the volume is full if less is free
segment_size=16777216
major=$(pg_receivewal --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
readonly slot connection poll minimum segment_size major

stream='' base='' reporter='' # processes
series=''                     # the current series
newest='' oldest='' count=0   # see look
noted=''                      # the content of the file SERIES/streamed
published='' problem=''       # the reported state, and the problem in it
level=0                       # percentage of the volume that is used, as a threshold
failures=0                    # consecutive failures of the stream because of the server
next_stream=0 next_base=0     # when to try again, in seconds since 1970
failed_request=''             # the request of the last base backup that failed
delay=60                      # until a base backup that failed is tried again, in seconds

say() { echo "$*" >&2; }

# ask runs a command of the replication protocol.
ask() {
  PGAPPNAME='windlass backup' timeout 30 psql --no-psqlrc --quiet --tuples-only --no-align --no-password \
    --dbname="$connection" --command="$1"
}

# flush writes the file system of the volume to the disk.
flush() { sync -f "$ROOT" 2>/dev/null || sync; }

# is_running succeeds if a process has been started and has not ended.
is_running() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }

# take reads the settings.
take() {
  PGHOST=$(cat "$SETTINGS/host") && export PGHOST || return 1
  password=$(sed 's/[\\:]/\\&/g' "$SETTINGS/password") && request=$(cat "$SETTINGS/request") &&
    keep=$(cat "$SETTINGS/keep") || return 1
  requested=$(cat "$SETTINGS/requested" 2>/dev/null) || requested=''
  printf '*:*:*:*:%s\n' "$password" >"$PGPASSFILE.new" && mv "$PGPASSFILE.new" "$PGPASSFILE"
}

# sorted_bases prints the directories of all complete base backups, the oldest first. Times have ten digits.
sorted_bases() {
  for dir in "$ROOT"/*/base/[0-9]*; do
    [ ! -d "$dir" ] || echo "${dir##*/} $dir"
  done | sort -n | cut -d ' ' -f 2-
}

# bases_of prints the complete base backups of a series, the oldest first.
bases_of() { sorted_bases | grep -F "/$1/base/" || true; }

# look sets newest and oldest to the newest and oldest complete base backups of the series, and count to the number of
# all complete base backups.
look() {
  newest=$(bases_of "$series" | tail -n 1) oldest=$(bases_of "$series" | head -n 1)
  count=$(($(sorted_bases | wc -l)))
}

# is_replaced succeeds if the server is another one than that of the newest base backup, because its volume is new or
# has other data, and no user has requested a base backup since. The script then takes none: a user may be about to
# restore the data, and a restore takes the newest base backup.
is_replaced() {
  last=$(sorted_bases | tail -n 1)
  case ${last#"$ROOT"/} in "" | "$system-"*) return 1 ;; esac
  [ "$(cat "$last/requested" 2>/dev/null)" = "$requested" ] || return 1
  if [ -z "$series" ]; then
    series=${last%/base/*}
    series=${series##*/}
    look
  fi
  [ "$problem" = other ] || say "The server is not the one of the last base backup. Request a base backup to continue."
  problem=other
}

# choose_series sets series to the current series, or begins another one if the current series is of another server or
# timeline, or has come to its end.
choose_series() {
  identity=$(ask IDENTIFY_SYSTEM) || return 1
  system=${identity%%|*} timeline=${identity#*|}
  timeline=${timeline%%|*}
  name=$(cat "$ROOT/current" 2>/dev/null) || name=''
  case $name in
  "$system-$timeline-"*) ;;
  *)
    ! is_replaced || return 1
    started=$(for dir in "$ROOT"/*-*-*; do echo "${dir##*-}"; done | grep '^[0-9]*$' | sort -n | tail -n 1)
    [ "${started:-0}" -lt "$now" ] && started=$now || started=$((started + 1)) # the clock was set back
    name=$system-$timeline-$started
    mkdir -p "$ROOT/$name/wal" "$ROOT/$name/base" && printf '%s' "$name" >"$ROOT/current.new" &&
      flush && mv "$ROOT/current.new" "$ROOT/current" || return 1
    noted=''
    say "Beginning the series $name."
    ;;
  esac
  series=$name
  [ "$problem" != other ] || problem=''
}

# is_segment succeeds if a file has the size of a segment.
is_segment() { [ "$(($(wc -c <"$1")))" = "$segment_size" ]; }

# start_stream starts the stream. pg_receivewal continues after the newest segment in its directory. If the server has
# removed the next one, pg_receivewal fails, so that there is no gap. On a full volume, pg_receivewal leaves a file that
# is too short. start_stream removes it: the server still has this segment.
start_stream() {
  choose_series || return 1
  [ -n "$base" ] || remove_old # the script may have been killed before
  look
  for file in "$ROOT/$series/wal"/*.partial; do
    [ ! -e "$file" ] || is_segment "$file" || rm -f "$file"
  done
  ask "CREATE_REPLICATION_SLOT $slot PHYSICAL RESERVE_WAL" >/dev/null 2>&1 || true # it may exist
  PGAPPNAME='windlass stream' pg_receivewal --dbname="$connection" --directory="$ROOT/$series/wal" --slot="$slot" \
    --synchronous --no-loop --status-interval=5 --no-password >&2 2>"$STATE/stream.log" &
  stream=$! stream_start=$now
}

# note_streamed writes the file SERIES/streamed. A restore that does not reach this position finds that segments are
# damaged or missing.
note_streamed() {
  segment=$(ls "$ROOT/$series/wal" | sed -n 's/^\([0-9A-F]\{24\}\).*/\1/p' | tail -n 1)
  [ -n "$segment" ] || return 0
  offset=0
  if [ "$major" -ge 15 ]; then
    position=$(ask "READ_REPLICATION_SLOT $slot" 2>/dev/null) || return 0 # keep the position that is noted
    position=${position#*|}
    position=${position%%|*}
    case $position in *[0-9A-F]/[0-9A-F]*) ;; *) return 0 ;; esac
    offset=$(((0x${position%%/*} << 32) + 0x${position#*/}))
  fi
  [ "$segment $offset" != "$noted" ] || return 0
  noted="$segment $offset"
  echo "$noted" >"$ROOT/$series/streamed.new" && mv "$ROOT/$series/streamed.new" "$ROOT/$series/streamed" || noted=
}

# is_lost succeeds if the server cannot continue the stream, because it has removed the next segment.
is_lost() {
  grep -q -e 'already been removed' -e 'invalidated' -e 'can no longer' -e 'ahead of the WAL flush position' \
    "$STATE/stream.log"
}

# keep_streaming starts the stream, and starts it again after it has ended.
keep_streaming() {
  if is_running "$stream"; then
    [ "$((now - stream_start))" -lt 60 ] || failures=0
    note_streamed
    return
  fi
  if [ -n "$stream" ]; then
    wait "$stream" || true
    stream='' next_stream=$((now + 5))
    cat "$STATE/stream.log" >&2
    if grep -q 'START_REPLICATION' "$STATE/stream.log"; then failures=$((failures + 1)); fi
    # The server can translate its errors. The series is at its end, too, if the server rejects the stream again and
    # again. The slot cannot be dropped while another process uses it.
    if is_lost || [ "$failures" -ge 12 ]; then
      if ask "DROP_REPLICATION_SLOT $slot" >/dev/null 2>&1; then
        say "The server no longer has the write-ahead log after the series $series."
        rm -f "$ROOT/current"
      fi
      failures=0
    fi
  fi
  [ "$next_stream" -le "$((now + 60))" ] || next_stream=0 # the clock was set back
  [ "$now" -lt "$next_stream" ] || start_stream || next_stream=$((now + 5))
}

# wants_base succeeds if a base backup is due: the newest request has no answer, or the series has no base backup.
wants_base() {
  [ "$request" = "$failed_request" ] || next_base=0
  [ "$next_base" -le "$((now + 3600))" ] || next_base=0 # the clock was set back
  [ -n "$stream" ] && [ -n "$series" ] && [ "$now" -ge "$next_base" ] || return 1
  [ -z "$newest" ] || [ "$(cat "$newest/request" 2>/dev/null)" != "$request" ]
}

start_base() {
  new=$ROOT/$series/base/new base_start=$now base_request=$request base_requested=$requested base_series=$series
  last=$(sorted_bases | tail -n 1)
  last=${last##*/}
  [ "$base_start" -gt "${last:-0}" ] || base_start=$((last + 1)) # the clock was set back
  rm -rf "$new"
  PGAPPNAME='windlass base backup' pg_basebackup --dbname="$connection" --pgdata="$new" --format=tar --compress=1 \
    --wal-method=stream --checkpoint=fast --manifest-checksums=SHA256 --label=windlass --no-password \
    >&2 2>"$STATE/base.log" &
  base=$!
  say "Taking a base backup."
}

# end_base counts a base backup that has ended. It removes a base backup that failed, which is tried again.
end_base() {
  code=0 why=base
  wait "$base" || code=$?
  base=
  cat "$STATE/base.log" >&2
  if [ "$code" = 0 ] && complete_base; then
    problem='' failed_request=$base_request delay=60 next_base=$((now + 10))
    say "The base backup $base_start is complete."
    remove_old
    look
    return
  fi
  measure
  if [ "$level" = 100 ] || grep -q 'No space left' "$STATE/base.log"; then why=full; fi
  problem=$why failed_request=$base_request
  rm -rf "$new"
  next_base=$((now + delay))
  delay=$((delay < 1800 ? delay * 2 : 3600))
}

# complete_base gives a base backup its name, if the series has the write-ahead log after it.
complete_base() {
  [ -s "$new/base.tar.gz" ] && [ -s "$new/pg_wal.tar.gz" ] && [ -s "$new/backup_manifest" ] || return 1
  for file in "$new"/*.tar.gz; do
    case ${file##*/} in
    base.tar.gz | pg_wal.tar.gz) ;;
    *)
      say "The server has tablespaces outside of its volume, which cannot be backed up."
      why=spaces
      return 1
      ;;
    esac
  done
  [ "$series" = "$base_series" ] && is_streamed "$(segment_of End "$new/backup_manifest")" || {
    say "The write-ahead log after the base backup is not streamed."
    return 1
  }
  printf '%s' "$base_requested" >"$new/requested" && printf '%s' "$base_request" >"$new/request" &&
    date +%s >"$new/end" && flush && mv "$new" "$ROOT/$series/base/$base_start" && flush
}

# is_streamed succeeds if the series has a segment, which can be incomplete. It waits up to 10 seconds.
is_streamed() {
  [ -n "$1" ] || return 1
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    for file in "$ROOT/$series/wal/$1" "$ROOT/$series/wal/$1.partial"; do
      if [ -e "$file" ]; then return; fi
    done
    sleep 1
  done
  return 1
}

# segment_of prints the name of the segment with the Start or End of a base backup, from its manifest.
segment_of() {
  sed -n "s/.*\"Timeline\": *\([0-9]*\).*\"$1-LSN\": *\"\([0-9A-F]*\)\/\([0-9A-F]*\)\".*/\1 \2 \3/p" "$2" | tail -n 1 |
    while read -r timeline high low; do printf '%08X%08X%08X' "$timeline" "0x$high" "$((0x$low >> 24))"; done
}

# remove_old removes the base backups of this server that are not to be kept, its series without base backups, and the
# segments that no base backup needs. Base backups for one request, which are taken after gaps, count as one, as long as
# there are not more than twice as many as are to be kept. It removes nothing of another server or timeline: if the
# volume of the server was lost, or a restore was a mistake, these base backups are all that is left.
remove_old() {
  requests=0 total=0 previous=''
  sorted_bases | grep -F "$ROOT/$system-$timeline-" | sed '1!G;h;$!d' >"$STATE/bases"
  while IFS= read -r dir; do
    answered=$(cat "$dir/request" 2>/dev/null) || answered=''
    [ "$answered" = "$previous" ] || requests=$((requests + 1))
    total=$((total + 1)) previous=$answered
    if [ "$requests" -gt "$keep" ] || [ "$total" -gt "$((2 * keep))" ]; then
      mv "$dir" "${dir%/*}/old" && rm -rf "${dir%/*}/old" # so that an interrupted removal leaves no damaged base backup
    fi
  done <"$STATE/bases"
  for dir in "$ROOT/$system-$timeline"-*; do
    first=$(bases_of "${dir##*/}" | head -n 1)
    if [ -n "$first" ]; then
      segment=$(segment_of Start "$first/backup_manifest")
      [ -z "$segment" ] || pg_archivecleanup "$dir/wal" "$segment" || true
    elif [ "${dir##*/}" != "$series" ]; then
      rm -rf "$dir"
    fi
  done
}

# measure sets level to the percentage of the volume that is used, as a threshold: 100 if the volume is full.
measure() {
  set -- $(df -Pk "$ROOT" 2>/dev/null | sed -n 's/.* \([0-9][0-9]*\)  *\([0-9][0-9]*\)%.*/\1 \2/p')
  [ $# = 2 ] || return 0
  level=0
  for threshold in 80 90 95; do [ "$2" -lt "$threshold" ] || level=$threshold; done
  [ "$1" -ge "$minimum" ] || level=100
}

# publish opens the connection that reports the state: a version, the times at which the newest and the oldest base
# backup of the series ended, or 0, the number of base backups, the level, the request that was answered, and a problem.
# application_name has at most 63 characters.
publish() {
  state="windlass 1 $(cat "$newest/end" 2>/dev/null || echo 0) $(cat "$oldest/end" 2>/dev/null || echo 0)"
  state="$state $count $level $(cat "$newest/request" 2>/dev/null || echo -) ${problem:--}"
  if [ "$state" = "$published" ] && is_running "$reporter"; then
    echo 'IDENTIFY_SYSTEM;' >&8 2>/dev/null || true # psql ends if the server has closed the connection
    return
  fi
  stop_reporting
  mkfifo "$STATE/report"
  PGAPPNAME=$state psql --no-psqlrc --quiet --no-password --dbname="$connection" <"$STATE/report" >/dev/null 2>&1 &
  reporter=$! published=$state
  exec 8>"$STATE/report" # waits until psql has opened the file
}

stop_reporting() {
  [ -z "$reporter" ] || { kill "$reporter" 2>/dev/null && wait "$reporter" || true; }
  exec 8>&-
  reporter=
  rm -f "$STATE/report"
}

stop() {
  [ -z "$stream" ] || kill -INT "$stream" 2>/dev/null || true
  for process in "$base" "$reporter"; do
    [ -z "$process" ] || kill "$process" 2>/dev/null || true
  done
  wait
  exit 0
}
trap stop INT TERM

# Two scripts must not write to one volume. The lock is held until all processes of this container have ended. An image
# without flock has no lock.
mkdir -p "$STATE"
exec 9>"$ROOT/lock"
! command -v flock >/dev/null || flock -n 9 || { say "Another Pod uses the volume." && sleep 5 && exit 1; }
rm -rf "$ROOT"/*/base/new "$ROOT"/*/base/old

while :; do
  now=$(date +%s)
  if take; then
    measure
    keep_streaming
    if [ -n "$base" ]; then
      is_running "$base" || end_base
    elif wants_base; then
      start_base
    fi
    publish
  fi
  sleep "$poll" &
  wait $! || true
done
