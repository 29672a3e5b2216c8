package postgres

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed machine/machine.c
var machineSource string

// library compiles machine.c once, and returns the path of the library. The C compiler is a prerequisite of the race
// detector too.
var library = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "machine")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for the user that runs PostgreSQL
		return "", err
	}
	source, made := filepath.Join(dir, "machine.c"), filepath.Join(dir, "machine.so")
	if err := os.WriteFile(source, []byte(machineSource), 0o600); err != nil {
		return "", err
	}
	output, err := exec.Command("cc", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl").
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling machine.c: %w\n%s", err, output)
	}
	return made, nil
})

// Machine makes the file system and the clock of a Pod fail. Its methods take effect at once, also in running
// processes.
type Machine struct {
	pod    *Pod
	volume string
	faults *os.File
}

// Offsets of the members of struct faults in machine.c, in bytes.
const (
	offsetSize, offsetUsed, offsetReadOnly, offsetFlush, offsetClock, faultsSize = 0, 8, 16, 24, 32, 40
)

// OnMachine returns the Machine of a volume. It has no faults. The Pod must not run yet.
func (p *Pod) OnMachine(t *testing.T, volume string) *Machine {
	t.Helper()
	made, err := library()
	if err != nil {
		t.Fatal(err)
	}
	p.volume(t, volume)
	path := p.Path("faults")
	if err := os.WriteFile(path, make([]byte, faultsSize), 0o600); err != nil {
		t.Fatal(err)
	}
	p.own(t, path)
	faults, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = faults.Close() })
	p.environment = []string{"LD_PRELOAD=" + made, "MACHINE_FAULTS=" + path, "MACHINE_VOLUME=" + p.Path(volume)}
	return &Machine{p, p.Path(volume), faults}
}

func (m *Machine) set(t *testing.T, offset int64, value int64) {
	t.Helper()
	if _, err := m.faults.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(value)), offset); err != nil {
		t.Fatal(err)
	}
}

// Limit sets the size of the volume in bytes.
func (m *Machine) Limit(t *testing.T, bytes int64) {
	t.Helper()
	m.set(t, offsetUsed, m.Used(t))
	m.set(t, offsetSize, bytes)
}

// Used returns the number of bytes of the files on the volume.
func (m *Machine) Used(t *testing.T) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(m.volume, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // PostgreSQL has removed the file
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// SetReadOnly makes the volume read-only, as a kernel does after an error of the disk, or writable again.
func (m *Machine) SetReadOnly(t *testing.T, readOnly bool) {
	t.Helper()
	m.set(t, offsetReadOnly, flag(readOnly))
}

// SetFlushFails makes each flush of a file fail, or succeed again.
func (m *Machine) SetFlushFails(t *testing.T, fails bool) {
	t.Helper()
	m.set(t, offsetFlush, flag(fails))
}

// SetClock sets by how much the clock is ahead.
func (m *Machine) SetClock(t *testing.T, ahead time.Duration) {
	t.Helper()
	m.set(t, offsetClock, int64(ahead/time.Second))
}

func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}
