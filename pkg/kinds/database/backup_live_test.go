//go:build integration

package database

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/postgresql"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// liveBackup is the Pod of the backup of a server, which runs on this machine.
type liveBackup struct {
	of      *liveServer
	pod     *postgres.Pod
	running *postgres.Container
}

// newLiveBackup returns a running server and its backup, which has taken a base backup.
func newLiveBackup(t *testing.T) (*liveServer, *liveBackup) {
	t.Helper()
	s, b := newBackedUpServer(t, 0)
	b.launch(t)
	b.await(t, "the base backup", func(r backupReport) bool { return r.request == "first" })
	return s, b
}

// launch starts the container with the Secret of the backup.
func (b *liveBackup) launch(t *testing.T) {
	t.Helper()
	b.pod.Mount(t, settingsVolume, b.of.backup.Data)
	c := backupContainerOf(b.of.db, DefaultImage)
	c.Env = append(c.Env, corev1.EnvVar{Name: "PGHOSTADDR", Value: "127.0.0.1"})
	b.running = b.pod.Start(t, c)
}

// request requests a base backup, and waits until it is complete.
func (b *liveBackup) request(t *testing.T, name string) {
	t.Helper()
	b.of.backup.Data[keyBackupRequest], b.of.backup.Data[keyBackupRequested] = []byte(name), []byte(name)
	b.pod.Mount(t, settingsVolume, b.of.backup.Data)
	b.await(t, "the base backup "+name, func(r backupReport) bool { return r.request == name })
}

// await waits until the report of the backup, as the operator reads it, is as wanted.
func (b *liveBackup) await(t *testing.T, what string, wanted func(backupReport) bool) {
	t.Helper()
	connection := b.of.login(t)
	defer connection.Close(context.Background())
	framework.Eventually(t, what, func(ctx context.Context) (bool, error) {
		select {
		case <-b.running.Ended():
			return false, fmt.Errorf("the backup ended; its log:\n%s", b.running.Log())
		default:
		}
		var text string
		err := connection.QueryRow(ctx, "select coalesce(max(application_name), '') from pg_stat_activity "+
			"where usename = 'windlass_backup' and application_name like 'windlass 1 %'").Scan(&text)
		report, valid := parseReport(text)
		return valid && wanted(report), err
	})
}

// awaitStreamed waits until the slot has everything that the server has written.
func (b *liveBackup) awaitStreamed(t *testing.T) {
	t.Helper()
	connection := b.of.login(t)
	defer connection.Close(context.Background())
	end := askIn(t, connection, "select pg_current_wal_flush_lsn()::text")
	framework.Eventually(t, "the write-ahead log to be streamed", func(ctx context.Context) (streamed bool, err error) {
		err = connection.QueryRow(ctx, "select coalesce(bool_or(restart_lsn >= $1::text::pg_lsn), false) from "+
			"pg_replication_slots where slot_name = 'windlass_backup'", end).Scan(&streamed)
		return streamed, err
	})
}

// awaitNoted waits until the backup has noted which position it has streamed.
func (b *liveBackup) awaitNoted(t *testing.T) {
	t.Helper()
	end := b.of.ask(t, "select (restart_lsn - '0/0')::text from pg_replication_slots where slot_name = 'windlass_backup'")
	framework.Eventually(t, "the streamed position "+end, func(context.Context) (bool, error) {
		noted, err := os.ReadFile(filepath.Join(b.pod.Path(backupVolume), b.names(t, "*/streamed")[0]))
		return strings.HasSuffix(string(noted), " "+end+"\n"), err
	})
}

// names returns the names of the files that match a pattern below the volume, relative to it.
func (b *liveBackup) names(t *testing.T, pattern string) (found []string) {
	t.Helper()
	root := b.pod.Path(backupVolume)
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		found = append(found, strings.TrimPrefix(path, root+"/"))
	}
	return found
}

func TestBackupKeepsBaseBackupsAndWriteAheadLog(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	for i := range 3 {
		exec(t, s.login(t), "insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 40000) i")
		b.request(t, "again"+strconv.Itoa(i))
	}
	b.awaitStreamed(t)
	bases := b.names(t, "*/base/*")
	if len(bases) != 2 {
		t.Errorf("the volume has %v, want 2 base backups", bases)
	}
	if series := b.names(t, "*-*-*"); len(series) != 1 {
		t.Errorf("the volume has %v, want 1 series", series)
	}
	if first := b.names(t, "*/wal/000000010000000000000001"); len(first) != 0 {
		t.Error("the volume has a segment that no base backup needs")
	}
	b.running.Stop(t)
	t.Log(b.running.Log())
}

func TestBackupBeginsSeriesAfterSlotWasDropped(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	b.running.Kill()
	connection := s.login(t)
	exec(t, connection, "create table filler (id bigint, content text)")
	superuser := s.superuser(t)
	exec(t, superuser, "select pg_drop_replication_slot('windlass_backup')")
	for range 4 {
		exec(t, connection, "insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 40000) i")
		exec(t, superuser, "checkpoint")
	}
	b.of.backup.Data[keyBackupRequest] = []byte("first")
	b.launch(t)
	framework.Eventually(t, "another series", func(context.Context) (bool, error) {
		return len(b.names(t, "*-*-*")) == 2, nil
	})
	b.await(t, "a base backup of the series", func(r backupReport) bool {
		return r.newest != nil && r.newest.Equal(r.oldest) && r.count == 2
	})
	b.awaitStreamed(t)
}

func TestBackupRoleCanOnlyReplicate(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	password := string(s.backup.Data[keyBackupPassword])
	for _, database := range []string{"postgres", "app", "template1"} {
		if _, err := s.connect(t.Context(), postgresql.BackupRole, password, database); err == nil {
			t.Errorf("the role of the backup logs in to the database %s", database)
		}
	}
	b.running.Kill()
	s.backup = nil
	s.db.Spec.Backup = nil
	s.mount(t)
	s.awaitSettings(t)
	s.wants(t, "select count(*) from pg_roles where rolname = 'windlass_backup'", "0")
	s.wants(t, "select count(*) from pg_replication_slots", "0")
	text, err := os.ReadFile(filepath.Join(s.pod.Path(dataVolume), "pgdata", "pg_hba.conf"))
	if err != nil || strings.Contains(string(text), "replication") {
		t.Errorf("without a backup, the server accepts replication: %v\n%s", err, text)
	}
}
