package place

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Heap is the controller's live heap in bytes, after garbage collections: what a pool
// holds goes with the second. The controller needs the flag --pprof.
func (p *Process) Heap(t *testing.T) (bytes int64) {
	t.Helper()
	for range 3 {
		found := regexp.MustCompile(`# HeapAlloc = (\d+)`).FindStringSubmatch(p.Get(t, "/debug/pprof/heap?gc=1&debug=1"))
		if found == nil {
			t.Fatal("the heap profile does not tell the size of the heap")
		}
		var err error
		if bytes, err = strconv.ParseInt(found[1], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return bytes
}

// PeakRSS is the most memory in bytes that the controller has had resident since it started.
func (p *Process) PeakRSS(t *testing.T) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatal("the kernel does not tell the peak of the resident memory")
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
