# Functions of server.sh for the parameters of PostgreSQL.

# rejection succeeds if PostgreSQL rejects a parameter NAME=VALUE, and prints the error of PostgreSQL. It returns 1 if
# PostgreSQL accepts the parameter, and 2 if the check itself failed.
rejection() {
  code=0
  said=$(postgres -D "$PGDATA" -c config_file=/dev/null -c "$1" -C "${1%%=*}" 2>&1 >/dev/null) || code=$?
  [ "$code" != 0 ] || return 1
  said=$(printf '%s\n' "$said" | sed -n 's/.*FATAL: *//p' | head -n 1 | cut -c 1-500)
  [ "$code" = 1 ] && [ -n "$said" ] || return 2
  printf '%s' "$said"
}

# previous prints the line of a parameter in a file of parameters. It fails if the file has no such line.
previous() { grep -e "^$(printf '%s' "${1%%=*}" | sed 's/[.]/[.]/g')=" "$2" 2>/dev/null; }

# choose_parameters copies the parameters that PostgreSQL accepts. A parameter that PostgreSQL rejects keeps its
# previous value, if it had one. If the server did not start with exactly these parameters before, choose_parameters
# copies the accepted ones instead.
choose_parameters() {
  : >"$STATE/parameters" || return 1
  while IFS= read -r line || [ -n "$line" ]; do
    if ! grep -qxF -e "$line" "$accepted" 2>/dev/null; then
      code=0
      why=$(rejection "$line") || code=$?
      [ "$code" != 2 ] || return 1
      if [ "$code" = 0 ]; then
        [ -e "$accepted" ] || fail_to_start
        note_problem "PostgreSQL rejects a parameter: $why."
        line=$(previous "$line" "$accepted") || continue
      fi
    fi
    printf '%s\n' "$line" >>"$STATE/parameters" || return 1
  done <"$copy/parameters"
  if [ -e "$accepted" ] && cmp -s "$STATE/parameters" "$failed"; then
    note_problem "PostgreSQL did not start with the new parameters, and runs with the previous parameters; its log says why."
    cp "$accepted" "$STATE/parameters" || return 1
  fi
}

# configure writes the configuration files, which the server reads at its next start or reload. windlass.conf includes
# postgresql.conf, which configure does not change. With a certificate in the settings, the server accepts only
# connections with TLS over the network. The role of the backup can only replicate, and no other role can.
configure() {
  hosts=host tls='ssl = off'
  if [ -e "$copy/tls.crt" ]; then
    hosts=hostssl tls=$(printf "ssl = on\nssl_cert_file = '%s'\nssl_key_file = '%s'" "$copy/tls.crt" "$copy/tls.key")
  fi
  backup=
  [ ! -e "$copy/backup.password" ] || backup=$(printf '%s replication "%s" all scram-sha-256\nhost all "%s" all reject' \
    "$hosts" "$backup_role" "$backup_role")
  printf 'local all all trust\n%s\n%s all all all scram-sha-256\n' "$backup" "$hosts" >"$PGDATA/pg_hba.conf.new" &&
    mv "$PGDATA/pg_hba.conf.new" "$PGDATA/pg_hba.conf" || return 1
  said=$(printf '%s' "$problem" | tr -d '\000-\037\177' | cut -c 1-1000 | sed "s/[\\\\']/&&/g")
  echo "include 'postgresql.conf'" >"$PGDATA/windlass.conf.new" &&
    sed -e "s/[\\\\']/&&/g" -e "s/=/ = '/" -e "s/\$/'/" "$STATE/parameters" >>"$PGDATA/windlass.conf.new" &&
    printf "%s\nwindlass.revision = '%s'\nwindlass.problem = '%s'\ninclude_if_exists '%s'\n" \
      "$tls" "$revision" "$said" "$volume" >>"$PGDATA/windlass.conf.new" &&
    mv "$PGDATA/windlass.conf.new" "$PGDATA/windlass.conf"
}

# record copies the chosen parameters to a file on the volume.
record() {
  cp "$STATE/parameters" "$1.new" && mv "$1.new" "$1"
}

# record_reload records the parameters that the server has reloaded. Its arguments are the names of the parameters that
# wait for a restart. These parameters keep their previous values.
record_reload() {
  : >"$STATE/reloaded" || return 1
  while IFS= read -r line; do
    for name in "$@"; do
      if [ "$name" = "${line%%=*}" ]; then
        line=$(previous "$line" "$accepted") || line=
        break
      fi
    done
    [ -z "$line" ] || printf '%s\n' "$line" >>"$STATE/reloaded" || return 1
  done <"$STATE/parameters"
  cp "$STATE/reloaded" "$accepted.new" && mv "$accepted.new" "$accepted"
}

# reload makes the server read its parameters, and waits until new sessions have them.
reload() {
  why="PostgreSQL does not reload its parameters; its log says why."
  kill -HUP "$server" || return 1
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ "$(ask postgres --command='SHOW windlass.revision')" != "$revision" ] || return 0
    sleep 0.1
  done
  return 1
}

# begin_session begins a session like that of a client, without the overrides of ask.
begin_session() { PGDATABASE=postgres psql --no-psqlrc --quiet --command='SELECT 1'; }

# reload_safely reloads the chosen parameters. If clients can no longer log in with the chosen parameters, for example
# because a library does not exist, reload_safely reloads the previous parameters.
reload_safely() {
  configure && reload || return 1
  if said=$(begin_session 2>&1 >/dev/null); then return 0; fi
  ! cmp -s "$STATE/parameters" "$accepted" || return 0
  why=$(printf '%s\n' "$said" | sed -n 's/.*FATAL: *//p' | head -n 1 | cut -c 1-500)
  [ -n "$why" ] || return 1
  note_problem "PostgreSQL accepts no sessions with the new parameters, and runs with the previous parameters: $why."
  cp "$accepted" "$STATE/parameters" && configure && reload
}

# ask_parameters prints names of parameters of the Database. With the argument pending, it prints the parameters that
# wait for a restart. With rejected, it prints the parameters that the server has not applied for another reason.
ask_parameters() {
  names=$(sed 's/=.*//' "$started" "$STATE/parameters" | tr '\n' ',')
  ask postgres --set=names="$names" --set=wanted="$1" <<'SQL'
SELECT name FROM (
  SELECT lower(name) AS name, 'pending' AS state FROM pg_settings WHERE pending_restart
  UNION SELECT lower(f.name), 'rejected' FROM pg_file_settings f LEFT JOIN pg_settings s ON s.name = f.name
    WHERE f.error IS NOT NULL AND NOT coalesce(s.pending_restart, false)) found
WHERE state = :'wanted' AND name = ANY (string_to_array(:'names', ','));
SQL
}

