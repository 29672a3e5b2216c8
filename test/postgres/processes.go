package postgres

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process of a container.
type Process struct {
	ID      int // on this machine
	Program string
	// CommandLine and Environment are the paths of files below /proc.
	CommandLine, Environment string
}

// Processes returns the running processes of the container, including the processes of probes.
func (c *Container) Processes() (found []Process) {
	own, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(c.command.Process.Pid), "ns/pid"))
	if err != nil {
		return nil // the container has ended
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // no error happens, because the pattern is valid
	for _, dir := range dirs {
		namespace, err := os.Readlink(filepath.Join(dir, "ns/pid"))
		name, nameErr := os.ReadFile(filepath.Join(dir, "comm"))
		id, idErr := strconv.Atoi(filepath.Base(dir))
		if err == nil && nameErr == nil && idErr == nil && namespace == own {
			found = append(found, Process{
				id, strings.TrimSpace(string(name)), filepath.Join(dir, "cmdline"), filepath.Join(dir, "environ"),
			})
		}
	}
	return found
}
