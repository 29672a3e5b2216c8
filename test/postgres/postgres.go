// Package postgres runs the container of a Database on this machine, without a
// container: its command, arguments, environment, probes and hooks are those of the
// Pod; the programs are Debian's.
package postgres

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"windlass.dev/windlass/test/cluster"
)

// Programs are PostgreSQL's servers and clients of one major version.
type Programs struct {
	Dir     string
	Version string // the major version
}

var version = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// directory is a variable of the environment that names the directory of the programs,
// to test with another version than the newest of this machine.
const directory = "POSTGRESQL_BIN"

// Find returns the programs that POSTGRESQL_BIN names. Without that variable it returns the newest
// of this machine, from where Debian puts them or from PATH, and otherwise those that
// hack/postgresql.sh has unpacked below bin.
func Find() (Programs, error) {
	if dir := os.Getenv(directory); dir != "" {
		return versionOf(filepath.Join(dir, "postgres"))
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return Programs{}, err
	}
	if len(found) > 0 {
		return versionOf(slices.Max(found)) // there is no version below 10 any more
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return versionOf(path)
	}
	root, err := cluster.Root()
	if err != nil {
		return Programs{}, err
	}
	unpacked := filepath.Join(root, "bin", "postgresql", "bin", "postgres")
	if _, err := os.Stat(unpacked); err != nil {
		return Programs{}, errors.New("PostgreSQL is missing: run `make postgresql`, or install the package postgresql")
	}
	return versionOf(unpacked)
}

func versionOf(path string) (Programs, error) {
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
