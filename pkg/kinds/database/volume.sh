# Functions of server.sh for the space on the volume.
#
# A file on the volume reserves space. When the volume is full, the script removes this file, and makes transactions
# read-only by default: PostgreSQL then has enough space to start after a crash, and clients can delete data.

reserve=$(dirname "$PGDATA")/windlass.reserve
volume=$STATE/volume.conf # parameters; windlass.conf includes this file
readonly reserve volume
segments=32768 reserved=65536 # two and four segments of the write-ahead log, in KiB
level=0                       # the percentage that the parameter windlass.volume has
told=0                        # the size that the parameter windlass.volume has

# measure sets size and free to the size of the volume and to the space that is free on it, in KiB. It sets used to the
# percentage that is used.
measure() {
  set -- $(df -Pk "$(dirname "$PGDATA")" 2>/dev/null |
    sed -n 's/.* \([0-9][0-9]*\)  *[0-9][0-9]*  *\(-\{0,1\}[0-9][0-9]*\)  *\([0-9][0-9]*\)%.*/\1 \2 \3/p')
  [ $# = 3 ] && size=$1 free=$2 used=$3
}

# is_full succeeds if PostgreSQL can soon not write to the volume.
is_full() { measure && [ "$free" -lt "$segments" ]; }

# take_reserve creates the file that reserves space. A file system could compress zeros.
take_reserve() {
  [ ! -e "$reserve" ] || return 0
  fallocate -l "$((reserved * 1024))" "$reserve.new" 2>/dev/null ||
    dd if=/dev/urandom of="$reserve.new" bs=1024 count="$reserved" 2>/dev/null || {
    rm -f "$reserve.new"
    return 1
  }
  mv "$reserve.new" "$reserve"
}

# level_of prints how full the volume is: 80, 90 or 95 if so much is used, 100 if the volume is full, and 0 otherwise. It
# prints a lower number than before only if the usage is more than 2 points below its threshold. A volume is no longer
# full when there is space for the reserve, and as much besides.
level_of() {
  if [ "$free" -lt "$segments" ] || { [ "$level" = 100 ] && [ "$free" -lt "$((2 * reserved))" ]; }; then
    echo 100
    return
  fi
  reached=0
  for threshold in 80 90 95; do [ "$used" -lt "$threshold" ] || reached=$threshold; done
  [ "$level" = 100 ] || [ "$reached" -gt "$level" ] || [ "$used" -lt "$((level - 2))" ] || reached=$level
  echo "$reached"
}

# check_volume measures the volume, and succeeds if it has changed the file of parameters. The server reads the
# parameters at its next start or reload.
check_volume() {
  measure || return 1
  next=$(level_of)
  if [ "$next" = 100 ]; then
    rm -f "$reserve"
  elif [ "$free" -ge "$((2 * reserved))" ]; then
    take_reserve || true
  fi
  if [ "$next" = "$level" ] && [ "$((size * 20))" -ge "$((told * 19))" ] && [ "$((size * 20))" -le "$((told * 21))" ]; then
    return 1
  fi
  read_only=
  [ "$next" != 100 ] || read_only='default_transaction_read_only = on'
  printf "windlass.volume = '%s %s'\n%s\n" "$next" "$size" "$read_only" >"$volume.new" && mv "$volume.new" "$volume" || return 1
  [ "$next" = "$level" ] || echo "$used % of the volume are used, and $free KiB are free." >&2
  level=$next told=$size
}
