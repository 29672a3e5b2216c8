package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recordScript replaces all programs, because its directory comes first in PATH. It appends its arguments and its
// environment to a file, and then runs the program with the same arguments and environment. It reads /proc/self,
// because the process IDs in /proc are not the process IDs in the container.
const recordScript = `#!/bin/sh
program=${0##*/}
PATH=${PATH#*%[1]s:} # otherwise cat would run this script
{ printf '\n%%s' "$0" "$@" && printf '\n' && cat /proc/self/environ; } >>"%[2]s" 2>/dev/null
exec "$program" "$@"
`

// lookInterval is the time between two reads of all processes of a container.
const lookInterval = 5 * time.Millisecond

// Record makes the next starts of the container record the command lines and environments of processes: see Recorded
// and Container.Seen.
func (p *Pod) Record(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(p.Path("programs"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.own(t, p.Path("programs"))
	script := p.Path("record.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, recordScript, p.Path("programs"), p.Path("record")),
		0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range filepath.SplitList(p.path()) {
		programs, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.Symlink(script, filepath.Join(p.Path("programs"), program.Name())); err != nil &&
				!errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
	}
	p.recorded = true
}

// Recorded returns the command line and the environment of each program that the container has found in PATH, even if
// the program ran only briefly.
func (p *Pod) Recorded(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.Path("record"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// watch has the distinct command lines and environments of a container's processes.
type watch struct {
	done sync.WaitGroup
	seen map[string]bool
}

// look reads the command lines and environments of all processes every lookInterval, until the container has ended.
func (c *Container) look() {
	c.watch.seen = map[string]bool{}
	c.watch.done.Go(func() {
		ticks := time.NewTicker(lookInterval)
		defer ticks.Stop()
		for {
			for _, process := range c.Processes() {
				line, _ := os.ReadFile(process.CommandLine) // the process may have ended
				environment, _ := os.ReadFile(process.Environment)
				c.watch.seen[string(line)+"\n"+string(environment)] = true
			}
			select {
			case <-c.ended:
				return
			case <-ticks.C:
			}
		}
	})
}

// Seen returns the distinct command lines and environments of all processes of a recorded container, in the format of
// /proc. The command line of a PostgreSQL process shows its current activity. Seen may miss a process that ran only
// briefly: see Pod.Recorded. It returns when the container has ended.
func (c *Container) Seen() string {
	c.watch.done.Wait()
	return strings.Join(slices.Sorted(maps.Keys(c.watch.seen)), "\n")
}
