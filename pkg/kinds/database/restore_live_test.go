//go:build integration

package database

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// restoredFrom returns another Database with a backup to restore, whose root is root. Its server does not run yet.
func restoredFrom(t *testing.T, root string, at *metav1.Time) *liveServer {
	t.Helper()
	s := newServer(t, withUID("restored"), func(db *v1alpha1.Database) {
		db.Spec.RestoreFrom = &v1alpha1.DatabaseRestore{Database: v1alpha1.LocalDatabase{Name: "other"}, Time: at}
	})
	if err := os.Symlink(root, s.pod.Path(backupVolume)); err != nil {
		t.Fatal(err)
	}
	return s
}

// restore runs the container that restores the backup. It returns its termination message if it fails, and "" after it
// has restored the backup.
func (s *liveServer) restore(t *testing.T) (failure string) {
	t.Helper()
	of, err := restoreOf(s.db)
	if err != nil {
		t.Fatal(err)
	}
	spec := generatedTemplate(s.db, DefaultImage, of).Spec
	running := s.pod.Start(t, spec.Containers[0])
	defer running.Kill()
	framework.Eventually(t, "the restore", func(ctx context.Context) (bool, error) {
		select {
		case <-running.Ended():
			if failure = s.pod.TerminationMessage(); failure == "" {
				return false, fmt.Errorf("the restore ended without a message; its log:\n%s", running.Log())
			}
			return true, nil
		default:
			return running.Probe(ctx, spec.Containers[0].ReadinessProbe) == nil, nil
		}
	})
	t.Log(running.Log())
	return failure
}

func TestRestoreHasAllAcknowledgedTransactions(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	connection := s.login(t)
	exec(t, connection, "create table rows (id serial, at timestamptz default clock_timestamp())")
	for range 20 {
		exec(t, connection, "insert into rows default values")
	}
	exec(t, connection, "select pg_sleep(1.1)") // the time has no fraction of a second
	middle := metav1.Now()
	exec(t, connection, "insert into rows select i, clock_timestamp() from generate_series(21, 100000) i")
	b.awaitStreamed(t)
	s.running.Kill() // the machine is lost
	b.running.Kill()
	root := b.pod.Path(backupVolume)
	for name, c := range map[string]struct {
		at   *metav1.Time
		want string
	}{
		"the latest time":                   {nil, "100000"},
		"a time":                            {&middle, "20"},
		"a time after the last transaction": {&metav1.Time{Time: middle.Add(time.Hour)}, "100000"},
	} {
		restored := restoredFrom(t, root, c.at)
		if failure := restored.restore(t); failure != "" {
			t.Fatalf("%s: %s", name, failure)
		}
		restored.launch(t)
		restored.awaitReady(t)
		if got := restored.ask(t, "select count(*) from rows"); got != c.want {
			t.Errorf("%s: %s rows, want %s", name, got, c.want)
		}
		restored.wants(t, "select count(*) from pg_roles where rolname = 'windlass_backup'", "0")
		restored.running.Kill()
		if failure := restored.restore(t); failure != "" {
			t.Errorf("%s: the second restore fails: %s", name, failure)
		}
	}
	early := restoredFrom(t, root, &metav1.Time{Time: middle.Add(-time.Hour)})
	if failure := early.restore(t); !strings.Contains(failure, "No base backup is older than") {
		t.Errorf("the restore to a time before all base backups: %q", failure)
	}
	if _, err := os.Stat(filepath.Join(early.pod.Path(dataVolume), "pgdata")); err == nil {
		t.Error("a restore that failed has left data")
	}
}
