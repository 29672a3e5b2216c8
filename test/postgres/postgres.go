// Package postgres runs the container of a Database on this machine, without a
// container: its command, arguments, environment, probes and hooks are those of the
// Pod; the programs are Debian's.
package postgres

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Programs are PostgreSQL's servers and clients of one major version.
type Programs struct {
	Dir     string
	Version string // the major version
}

var version = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// Find returns the newest programs of this machine, where Debian puts them or else in
// PATH.
func Find() (Programs, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return Programs{}, err
	}
	slices.Sort(found) // there is no version below 10 any more
	if len(found) == 0 {
		path, err := exec.LookPath("postgres")
		if err != nil {
			return Programs{}, errors.New("PostgreSQL is missing: install the package postgresql")
		}
		found = append(found, path)
	}
	path := found[len(found)-1]
	output, err := exec.Command(path, "--version").Output()
	if err != nil {
		return Programs{}, err
	}
	major := version.FindSubmatch(output)
	if major == nil {
		return Programs{}, errors.New(path + " does not tell its version: " + strings.TrimSpace(string(output)))
	}
	return Programs{Dir: filepath.Dir(path), Version: string(major[1])}, nil
}
