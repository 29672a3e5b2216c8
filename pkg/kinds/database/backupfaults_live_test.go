//go:build integration

package database

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// newBackedUpServer returns a running server with a backup whose Pod does not run yet. If size is positive, the volume
// of the server has this size, in bytes.
func newBackedUpServer(t *testing.T, size int64) (*liveServer, *liveBackup) {
	t.Helper()
	s := newServer(t, withBackup)
	s.backup = desiredBackupSecret(s.db, s.encryption(), "first")
	s.mount(t)
	if size > 0 {
		s.pod.OnMachine(t, dataVolume).Limit(t, size)
	}
	s.launch(t)
	s.awaitReady(t)
	b := &liveBackup{of: s, pod: postgres.NewPod(t)}
	b.pod.Port = s.pod.Port
	return s, b
}

func TestDeadBackupDoesNotFillVolumeOfServer(t *testing.T) {
	t.Parallel()
	s, b := newBackedUpServer(t, 1500*mebibyte)
	b.launch(t)
	b.await(t, "the base backup", func(r backupReport) bool { return r.request == "first" })
	b.running.Kill()
	connection, superuser := s.login(t), s.superuser(t)
	exec(t, connection, "create table filler (id bigint, content text)")
	framework.Eventually(t, "the server to drop the slot", func(ctx context.Context) (bool, error) {
		for _, sql := range []string{
			"insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 4000) i", "truncate filler",
		} {
			if _, err := connection.Exec(ctx, sql); err != nil {
				return false, fmt.Errorf("the volume of the server is full: %w", err)
			}
		}
		if _, err := superuser.Exec(ctx, "checkpoint"); err != nil {
			return false, err
		}
		var slots int
		err := connection.QueryRow(ctx, "select count(*) from pg_replication_slots").Scan(&slots)
		return slots == 0, err
	})
	s.wants(t, "select current_setting('default_transaction_read_only')", "off")
	b.launch(t)
	b.await(t, "a base backup of another series", func(r backupReport) bool { return r.count == 2 })
	if series := b.names(t, "*-*-*"); len(series) != 2 {
		t.Errorf("the volume has %v, want 2 series", series)
	}
}

func TestBackupContinuesAfterKillAtEachProgram(t *testing.T) {
	t.Parallel()
	s, b := newBackedUpServer(t, 0)
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	kills := 0
	for _, program := range []string{"psql", "pg_receivewal", "pg_basebackup", "sync", "mv", "rm", "pg_archivecleanup"} {
		for n := 1; n <= 3; n++ {
			exec(t, s.login(t), "insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 2000) i")
			name := fmt.Sprintf("%.5s%d", strings.ReplaceAll(program, "pg_", ""), n)
			s.backup.Data[keyBackupRequest] = []byte(name)
			b.pod.Hold(t, program, n)
			b.launch(t)
			framework.Eventually(t, fmt.Sprintf("run %d of %s, or the base backup", n, program),
				func(context.Context) (bool, error) { return b.pod.Held() || b.has(t, name), nil })
			if b.pod.Held() {
				kills++
			}
			b.running.Kill()
			b.checkComplete(t)
			b.launch(t)
			b.await(t, "the base backup "+name, func(r backupReport) bool { return r.request == name })
			b.running.Kill()
		}
	}
	if kills < 12 {
		t.Errorf("the backup was killed at %d programs, want at least 12", kills)
	}
	b.launch(t)
	b.awaitStreamed(t)
	want := s.ask(t, contentQuery)
	s.running.Kill()
	b.running.Kill()
	if bases := b.names(t, "*/base/*"); len(bases) != 2 {
		t.Errorf("the volume has %v, want 2 base backups", bases)
	}
	restored := restoredFrom(t, b.pod.Path(backupVolume), nil)
	if failure := restored.restore(t); failure != "" {
		t.Fatal(failure)
	}
	restored.launch(t)
	restored.awaitReady(t)
	restored.wants(t, contentQuery, want)
}

// has reports whether the volume has a complete base backup that answers a request.
func (b *liveBackup) has(t *testing.T, request string) bool {
	t.Helper()
	for _, name := range b.names(t, "*/base/[0-9]*/request") {
		if text, _ := os.ReadFile(filepath.Join(b.pod.Path(backupVolume), name)); string(text) == request {
			return true
		}
	}
	return false
}

// checkComplete fails the test if a base backup counts that is not complete.
func (b *liveBackup) checkComplete(t *testing.T) {
	t.Helper()
	for _, base := range b.names(t, "*/base/[0-9]*") {
		for _, file := range []string{"base.tar.gz", "pg_wal.tar.gz", "backup_manifest", "end", "request"} {
			info, err := os.Stat(filepath.Join(b.pod.Path(backupVolume), base, file))
			if err != nil || info.Size() == 0 {
				t.Errorf("the base backup %s counts, but lacks %s", base, file)
			}
		}
	}
}

func TestRestoreUsesOlderBaseBackupIfNewestIsDamaged(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	exec(t, s.login(t), "insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 2000) i")
	b.request(t, "second")
	b.awaitStreamed(t)
	want := s.ask(t, contentQuery)
	s.running.Kill()
	b.running.Kill()
	root := b.pod.Path(backupVolume)
	bases := b.names(t, "*/base/*/base.tar.gz")
	damage{bases[len(bases)-1], "flip", 100_000}.applyTo(t, root)
	restored := restoredFrom(t, root, nil)
	if failure := restored.restore(t); failure != "" {
		t.Fatal(failure)
	}
	restored.launch(t)
	restored.awaitReady(t)
	restored.wants(t, contentQuery, want)
}

func TestRestoreOfBackupThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	connection, writes := s.login(t), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := connection.Exec(ctx, "insert into filler values (1, repeat(md5('1'), 30))"); err != nil {
				writes <- err
				return
			}
		}
	}()
	superuser := s.superuser(t)
	framework.Eventually(t, "rows", func(ctx context.Context) (found bool, err error) {
		err = superuser.QueryRow(ctx, "select pg_current_wal_lsn() > '0/5000000'").Scan(&found)
		return found, err
	})
	before := s.ask(t, "select count(*) from filler")
	restored := restoredFrom(t, b.pod.Path(backupVolume), nil)
	if failure := restored.restore(t); failure != "" {
		t.Error(failure)
	}
	stop()
	if err := <-writes; ctx.Err() == nil {
		t.Error(err)
	}
	restored.launch(t)
	restored.awaitReady(t)
	restored.wants(t, "select count(*) >= "+before+" from filler", "true")
}

func TestBackupContinuesAfterIncompleteSegment(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	exec(t, s.login(t), "create table rows (id bigint)")
	b.awaitStreamed(t)
	b.running.Kill()
	partial := b.names(t, "*/wal/*.partial")
	damage{partial[0], "truncate", 1 << 20}.applyTo(t, b.pod.Path(backupVolume))
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	b.launch(t)
	b.awaitStreamed(t)
	if series := b.names(t, "*-*-*"); len(series) != 1 {
		t.Errorf("the volume has %v, want 1 series", series)
	}
}

func TestBackupOfReplacedServerWaitsForRequest(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	s.running.Kill()
	if err := os.RemoveAll(filepath.Join(s.pod.Path(dataVolume), "pgdata")); err != nil {
		t.Fatal(err)
	}
	s.launch(t)
	s.awaitReady(t)
	b.await(t, "the report", func(r backupReport) bool { return r.problem == "other" })
	if series := b.names(t, "*-*-*"); len(series) != 1 {
		t.Errorf("the volume has %v, want 1 series", series)
	}
	b.request(t, "second")
	b.awaitStreamed(t)
	if bases := b.names(t, "*/base/*"); len(bases) != 2 {
		t.Errorf("the volume has %v, want the base backups of both servers", bases)
	}
}

func TestRestoreReportsGap(t *testing.T) {
	t.Parallel()
	_, b := newLiveBackup(t)
	b.running.Kill()
	root := b.pod.Path(backupVolume)
	series := b.names(t, "*-*-*")[0]
	later := series[:strings.LastIndex(series, "-")] + "-9999999999"
	if err := os.MkdirAll(filepath.Join(root, later, "wal"), 0o755); err != nil {
		t.Fatal(err)
	}
	if failure := restoredFrom(t, root, nil).restore(t); !strings.HasPrefix(failure, "The backup has a gap after ") {
		t.Errorf("the restore before a gap: %q", failure)
	}
}

func TestRestoreOfPreparedTransactions(t *testing.T) {
	t.Parallel()
	s, b := newBackedUpServer(t, 0)
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"max_prepared_transactions": "10"}))
	b.launch(t)
	b.await(t, "the base backup", func(r backupReport) bool { return r.request == "first" })
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	exec(t, s.superuser(t), "alter system set port = 1")
	connection := s.login(t)
	exec(t, connection, "begin; insert into filler values (1, 'prepared'); prepare transaction 'one'")
	b.request(t, "second")
	b.awaitStreamed(t)
	restored := restoredFrom(t, b.pod.Path(backupVolume), nil)
	restored.db.Spec.Parameters = s.db.Spec.Parameters
	restored.mount(t)
	if failure := restored.restore(t); failure != "" {
		t.Fatal(failure)
	}
	restored.launch(t)
	restored.awaitReady(t)
	restored.wants(t, "select count(*) from pg_prepared_xacts", "1")
}
