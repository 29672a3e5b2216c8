package framework

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Heap returns the size of the controller's live heap in bytes, after three garbage collections:
// the second one frees the objects of a sync.Pool. The controller must run with --pprof.
func (p *Process) Heap(t *testing.T) (bytes int64) {
	t.Helper()
	for range 3 {
		found := regexp.MustCompile(`# HeapAlloc = (\d+)`).FindStringSubmatch(p.Get(t, "/debug/pprof/heap?gc=1&debug=1"))
		if found == nil {
			t.Fatal("the heap profile has no line HeapAlloc")
		}
		var err error
		if bytes, err = strconv.ParseInt(found[1], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return bytes
}

// PeakRSS returns the controller's largest resident set size since its start, in bytes.
func (p *Process) PeakRSS(t *testing.T) (bytes int64) {
	t.Helper()
	bytes, err := PeakRSS(p.command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// PeakRSS returns the largest resident set size of a process since its start, in bytes. The maximum in the rusage of a
// process cannot replace this size, because the maximum includes the resident set of the parent process.
func PeakRSS(pid int) (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0, fmt.Errorf("/proc/%d/status has no line VmHWM", pid)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10, err
}
