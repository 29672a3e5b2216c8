# Functions of server.sh for the space on the volume.
#
# A file on the volume reserves space. When the volume is nearly full, the script makes transactions read-only by
# default. If PostgreSQL crashes on a full volume all the same, the script empties the file before it starts PostgreSQL,
# which then has space to start, and clients can delete data. The empty file stays until there is space for the reserve
# again.

reserve_file=$(dirname "$PGDATA")/windlass.reserve
reserve_size=65536 # four segments of the write-ahead log, in KiB
full_below=32768   # in KiB: two segments
volume=$STATE/volume.conf # parameters; windlass.conf includes this file
readonly reserve_file reserve_size full_below volume
level=0        # the percentage in the parameter windlass.volume
written_size=0 # the size in the parameter windlass.volume
reserving=1    # empty after a failure to reserve space

# measure sets size and free to the size of the volume and to the free space on it, in KiB, and used to the percentage
# that is used.
measure() {
  set -- $(df -Pk "$(dirname "$PGDATA")" 2>/dev/null |
    sed -n 's/.* \([0-9][0-9]*\)  *[0-9][0-9]*  *\(-\{0,1\}[0-9][0-9]*\)  *\([0-9][0-9]*\)%.*/\1 \2 \3/p')
  [ $# = 3 ] && size=$1 free=$2 used=$3
}

# has_released succeeds if the script has emptied the reserve.
has_released() { [ -e "$reserve_file" ] && [ ! -s "$reserve_file" ]; }

# reserve fills the file that reserves space. Without fallocate, it writes random bytes, because a file system could
# compress zeros. It does not try again after a failure, which a quota can cause.
reserve() {
  [ -n "$reserving" ] && [ ! -s "$reserve_file" ] || return 0
  fallocate -l "$((reserve_size * 1024))" "$reserve_file.new" 2>/dev/null ||
    dd if=/dev/urandom of="$reserve_file.new" bs=1024 count="$reserve_size" 2>/dev/null || {
    rm -f "$reserve_file.new"
    reserving=
    return 0
  }
  mv "$reserve_file.new" "$reserve_file"
}

# release empties the reserve if the volume is full. PostgreSQL must not run: a statement of a client could use the
# space.
release() {
  rm -f "$reserve_file.new" # which a killed container may have left
  if measure && [ "$free" -lt "$full_below" ] && [ -s "$reserve_file" ]; then
    printf '' >"$reserve_file" || true
  fi
}

# choose_level sets next to the percentage that windlass.volume gets: 80, 90 or 95 if so much is used, 100 if the volume
# is full, and 0 otherwise. A full volume stays full until there is free space for the reserve, and as much besides.
choose_level() {
  next=0 needed=$reserve_size
  if has_released; then needed=$((2 * reserve_size)); fi
  if [ "$free" -lt "$full_below" ] || { [ "$level" = 100 ] && [ "$free" -lt "$needed" ]; }; then
    next=100
    return
  fi
  for threshold in 80 90 95; do [ "$used" -lt "$threshold" ] || next=$threshold; done
  # The level stays until the usage is more than 2 points below it, so that it does not change all the time.
  if [ "$level" != 100 ] && [ "$next" -lt "$level" ] && [ "$used" -ge "$((level - 2))" ]; then next=$level; fi
}

# update_volume measures the volume, and writes the parameters if the level or, by more than 5 %, the size has changed.
# It succeeds only if it has written them. The server reads them at its next start or reload.
update_volume() {
  measure || return 1
  choose_level
  if [ "$next" != 100 ] && [ "$free" -ge "$((2 * reserve_size))" ]; then reserve; fi
  if [ "$next" = "$level" ] && [ "$((size * 20))" -ge "$((written_size * 19))" ] &&
    [ "$((size * 20))" -le "$((written_size * 21))" ]; then return 1; fi
  read_only=
  [ "$next" != 100 ] || read_only='default_transaction_read_only = on'
  printf "windlass.volume = '%s %s'\n%s\n" "$next" "$size" "$read_only" >"$volume.new" &&
    mv "$volume.new" "$volume" || return 1
  [ "$next" = "$level" ] || echo "$used % of the volume are used, and $free KiB are free." >&2
  level=$next written_size=$size
}
