//go:build integration

package database

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var damages = flag.Int("database.damages", 6, "number of damaged backups that TestRestoreFindsDamage restores")

// damage is a change of one file of a backup.
type damage struct {
	path   string // relative to the root of the volume
	change string // flip, truncate or remove
	offset int64
}

func (d damage) String() string { return fmt.Sprintf("%s %s at %d", d.change, d.path, d.offset) }

// applyTo damages the backup below root.
func (d damage) applyTo(t *testing.T, root string) {
	t.Helper()
	path := filepath.Join(root, d.path)
	var err error
	switch d.change {
	case "remove":
		err = os.Remove(path)
	case "truncate":
		err = os.Truncate(path, d.offset)
	default:
		var content []byte
		if content, err = os.ReadFile(path); err == nil {
			content[d.offset] ^= 0x10
			err = os.WriteFile(path, content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// damagesOf returns n damages of the files below root.
func damagesOf(t *testing.T, root string, n int) (found []damage) {
	t.Helper()
	var files []string
	sizes := map[string]int64{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(filepath.Dir(path)) != "wal" && !strings.Contains(path, ".tar.gz") &&
			entry.Name() != "backup_manifest" {
			return err
		}
		info, err := entry.Info()
		name := strings.TrimPrefix(path, root+"/")
		if err == nil && info.Size() > 0 {
			files, sizes[name] = append(files, name), info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(51, 51))
	changes := []string{"flip", "flip", "flip", "flip", "truncate", "remove"}
	for range n {
		name := files[random.IntN(len(files))]
		found = append(found, damage{name, changes[random.IntN(len(changes))], random.Int64N(sizes[name])})
	}
	return found
}

// contentQuery returns a digest of the table filler.
const contentQuery = "select count(*) || ' ' || coalesce(sum(hashtext(content)::bigint), 0) from filler"

func TestRestoreFindsDamage(t *testing.T) {
	t.Parallel()
	s, b := newLiveBackup(t)
	connection := s.login(t)

	exec(t, connection, "create table filler (id bigint, content text)")
	exec(t, connection, "insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 20000) i")
	for range 50 {
		exec(t, connection, "insert into filler select i, repeat(md5(i::text), 30) from generate_series(1, 500) i")
	}
	b.awaitStreamed(t)
	b.awaitNoted(t)
	want := s.ask(t, contentQuery)
	s.running.Kill()
	b.running.Kill()
	root := b.pod.Path(backupVolume)
	found, unharmed := 0, 0
	for _, d := range damagesOf(t, root, *damages) {
		copied, err := os.MkdirTemp("", "backup")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(copied)
		if output, err := osexec.Command("cp", "-a", root+"/.", copied).CombinedOutput(); err != nil {
			t.Fatalf("copying the backup: %v: %s", err, output)
		}
		if err := os.Chmod(copied, 0o755); err != nil {
			t.Fatal(err)
		}
		d.applyTo(t, copied)
		restored := restoredFrom(t, copied, nil)
		if failure := restored.restore(t); failure != "" {
			if !strings.Contains(failure, filepath.Base(d.path)) && !strings.Contains(failure, filepath.Dir(d.path)) {
				t.Errorf("%s: the message does not name the file: %s", d, failure)
			}
			found++
			continue
		}
		restored.launch(t)
		restored.awaitReady(t)
		if got := restored.ask(t, contentQuery); got != want {
			t.Errorf("%s: restored %s, want %s", d, got, want)
		}
		restored.running.Kill()
		unharmed++
	}
	t.Logf("%d damages found, %d without effect", found, unharmed)
}
