package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// holdScript stands before a program in PATH. From the nth run on, it waits for ever instead of running the program.
// Runs that print the version do not count.
const holdScript = `#!/bin/sh
steps=${0%%/*} program=${0##*/}
PATH=${PATH#*:}
[ "$1" != --version ] || exec "$program" "$@"
echo >>"$steps/runs"
[ "$(wc -l <"$steps/runs")" -ge %d ] || exec "$program" "$@"
: >"$steps/held"
exec sleep infinity
`

// Hold makes the next start of the container wait for ever at the nth run of a program, before the program does
// anything. The start after the next one runs the program.
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

// Held reports whether the container waits at the run that Hold names.
func (p *Pod) Held() bool {
	_, err := os.Stat(filepath.Join(p.steps(), "held"))
	return err == nil
}

func (p *Pod) steps() string { return filepath.Join(p.dir, "steps") }

// path returns the PATH of a start of the container.
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
