package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// holdScript replaces a program, because its directory comes first in PATH. From the nth run on, it waits forever
// instead of running the program. Runs that print the version do not count.
const holdScript = `#!/bin/sh
steps=${0%%/*} program=${0##*/}
PATH=${PATH#*:}
[ "$1" != --version ] || exec "$program" "$@"
echo >>"$steps/runs"
[ "$(wc -l <"$steps/runs")" -ge %d ] || exec "$program" "$@"
: >"$steps/held"
exec sleep infinity
`

// Hold makes the next start of the container wait forever at the nth run of a program, before the program does
// anything. Later starts run the program.
func (p *Pod) Hold(t *testing.T, program string, n int) {
	t.Helper()
	if err := os.RemoveAll(p.steps()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.steps(), 0o755); err != nil {
		t.Fatal(err)
	}
	p.own(t, p.steps())
	if err := os.WriteFile(filepath.Join(p.steps(), program), fmt.Appendf(nil, holdScript, n), 0o755); err != nil {
		t.Fatal(err)
	}
	p.held = true
}

// Held reports whether the container waits at the run that was passed to Hold.
func (p *Pod) Held() bool {
	_, err := os.Stat(filepath.Join(p.steps(), "held"))
	return err == nil
}

func (p *Pod) steps() string { return filepath.Join(p.dir, "steps") }

// path returns the variable PATH for the next start of the container.
func (p *Pod) path() string {
	path := p.programs.Dir + ":/usr/bin:/bin"
	if p.held {
		path = p.steps() + ":" + path
	}
	if p.recorded {
		path = p.Path("programs") + ":" + path
	}
	return path
}
