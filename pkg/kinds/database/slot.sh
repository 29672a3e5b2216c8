# Functions of server.sh for the backup, which runs in another Pod. The backup reads the write-ahead log through a
# replication slot, which has the name of the role of the backup.

backup_role=windlass_backup
backup_mark='Windlass backs up with this role'
readonly backup_role backup_mark
limiting='' # the process that checks the slot

# ask_backup is like ask, with the names of the backup.
ask_backup() { ask postgres --set=backup="$backup_role" --set=backup_mark="$backup_mark" "$@"; }

# set_backup creates the role with which the backup replicates. Without a backup, it drops the role and the slot.
set_backup() {
  why="PostgreSQL rejects the role of the backup; its log says why."
  found=$(ask_backup <<'SQL'
SELECT coalesce((SELECT CASE WHEN shobj_description(oid, 'pg_authid') = :'backup_mark' THEN 'ours' ELSE 'other' END
  FROM pg_roles WHERE rolname = :'backup'), 'none');
SQL
  ) || return 1
  if [ ! -e "$copy/backup.password" ]; then
    end_backup "$found"
    return
  fi
  if [ "$found" = other ]; then
    why="There is no backup, because a role $backup_role exists that Windlass has not created. Rename this role."
    return 1
  fi
  ask_backup >/dev/null <<'SQL' || return 1
BEGIN;
SELECT format('CREATE ROLE %I', :'backup') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'backup') \gexec
COMMENT ON ROLE :"backup" IS :'backup_mark';
ALTER ROLE :"backup" NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS REPLICATION LOGIN CONNECTION LIMIT -1
  VALID UNTIL 'infinity';
COMMIT;
SQL
  change_password "$backup_role" backup.password
}

# end_backup drops the slot of the backup and, if its argument is "ours", the role. A role with permissions that a
# superuser has granted cannot be dropped, and stays without a login.
end_backup() {
  if [ "$1" = ours ]; then
    ask_backup >/dev/null <<'SQL' || return 1
ALTER ROLE :"backup" NOLOGIN PASSWORD NULL;
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = :'backup';
SQL
  fi
  ask_backup >/dev/null <<'SQL' || return 1
SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = :'backup' AND active;
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
  WHERE slot_name = :'backup' AND slot_type = 'physical';
SQL
  [ "$1" != ours ] || echo 'DROP ROLE :"backup";' | ask_backup >/dev/null || true
}

# limit_slot drops the slot if the backup has fallen so far behind that the write-ahead log could fill the volume: if
# the slot retains more than a fifth of the volume or, on a volume that is nearly full, more than two segments. The
# backup then begins again. limit_slot asks the server only if pg_wal has more segments than that.
limit_slot() {
  [ "$written_size" -gt 0 ] || return 0
  limit=$((written_size / 5))
  [ "$level" -lt 95 ] || limit=32768
  set -- "$PGDATA"/pg_wal/0*
  [ "$(($# * 16384))" -gt "$limit" ] || return 0
  if [ -n "$limiting" ] && kill -0 "$limiting" 2>/dev/null; then return; fi
  drop_slot "$((limit * 1024))" &
  limiting=$!
}

# drop_slot drops the slot if it retains more bytes than its argument. A checkpoint then removes the segments. It also
# ends a base backup whose temporary slot retains so much.
drop_slot() {
  ask_backup --set=limit="$1" >/dev/null <<'SQL' || true
CREATE TEMPORARY VIEW behind AS SELECT slot_name, active_pid FROM pg_replication_slots
  WHERE slot_name = :'backup' AND pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > :limit;
SELECT pg_terminate_backend(active_pid, 2000) FROM behind WHERE active_pid IS NOT NULL;
SELECT pg_terminate_backend(pid, 2000) FROM pg_replication_slots JOIN pg_stat_activity ON pid = active_pid
  WHERE temporary AND usename = :'backup' AND pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > :limit;
SELECT format('SELECT pg_drop_replication_slot(%L); CHECKPOINT', slot_name) FROM behind WHERE active_pid IS NULL \gexec
SQL
}
