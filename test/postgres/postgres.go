// Package postgres runs the container of a Database as ordinary processes on this machine. It takes the command,
// arguments, environment, probes and hooks from the Pod, and uses the programs that Find returns. It also runs servers
// outside of any cluster, proxies, and fake servers.
package postgres

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"windlass.dev/windlass/test/framework"
)

// Programs are the server and the clients of one major version of PostgreSQL.
type Programs struct {
	Dir     string
	Version string // the major version
}

var version = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// directory is the environment variable that names the directory of the programs. It can select a version
// other than the newest version on this machine.
const directory = "POSTGRESQL_BIN"

// Find returns the programs in the directory that the environment variable POSTGRESQL_BIN names. Without this variable,
// it returns the newest programs in Debian's directories, or else the programs in PATH, or else the programs that
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
		return versionOf(slices.Max(found)) // all supported versions have two digits, so paths sort by version
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return versionOf(path)
	}
	root, err := framework.Root()
	if err != nil {
		return Programs{}, err
	}
	unpacked := filepath.Join(root, "bin", "postgresql", "bin", "postgres")
	if _, err := os.Stat(unpacked); err != nil {
		return Programs{}, errors.New("finding PostgreSQL: no programs were found; run `make postgresql` or install " +
			"the package postgresql")
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
		return Programs{},
			errors.New("reading the version of " + path + ": unexpected output: " + strings.TrimSpace(string(output)))
	}
	return Programs{Dir: filepath.Dir(path), Version: string(major[1])}, nil
}
