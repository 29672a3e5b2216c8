package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// contestant is a program that reconciles Apps.
type contestant struct {
	name string
	// command returns the program and its arguments. The address is for profiles.
	command func(kubeconfig, address string) []string
	// verbose is the argument with which the program logs each reconcile.
	verbose string
}

// workers is the number of workers of each contestant, except the default peer, which has one.
const workers = 10

func contestants(controller, self string) []contestant {
	peer := func(name string, more ...string) contestant {
		return contestant{name, func(kubeconfig, address string) []string {
			return append([]string{
				self, "peer", "--kubeconfig=" + kubeconfig, "--pprof=" + address, fmt.Sprintf("--workers=%d", workers),
			}, more...)
		}, "--verbose"}
	}
	return []contestant{
		{"Windlass", func(kubeconfig, address string) []string {
			return []string{
				controller, "--kubeconfig=" + kubeconfig, "--bind-address=" + address, "--pprof",
				"--metrics-secure=false", "--leader-elect=false", fmt.Sprintf("--workers=%d", workers),
			}
		}, "--v=2"},
		peer("careful peer", "--careful"),
		peer("default peer"),
	}
}

// floorOf returns the floor, which sends the writes on a tape.
func floorOf(self, tape string) contestant {
	return contestant{floorName, func(kubeconfig, address string) []string {
		return []string{self, "floor", "--kubeconfig=" + kubeconfig, "--tape=" + tape, "--pprof=" + address}
	}, ""}
}

// running is the process of a contestant.
type running struct {
	command *exec.Cmd
	address string
	log     string
	began   time.Time
	ended   chan struct{} // closed when the process has ended
}

// start starts a contestant with the additional arguments more. The output of the contestant goes to a file in dir
// that has the contestant's name.
func (c contestant) start(dir, kubeconfig string, more ...string) (*running, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_ = listener.Close() // the contestant can use the port now
	args := append(c.command(kubeconfig, address), more...)
	r := &running{
		command: exec.Command(args[0], args[1:]...), address: address, ended: make(chan struct{}),
		log: filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")+".log"),
	}
	output, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	r.command.Stdout, r.command.Stderr = output, output
	r.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.began = time.Now()
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	go func() {
		_ = r.command.Wait() // ProcessState has the result
		close(r.ended)
	}()
	return r, nil
}

// living returns a context that is canceled when the process ends.
func (r *running) living(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-r.ended:
			cancel(r.failure())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// failure returns an error that says how the process ended.
func (r *running) failure() error {
	return fmt.Errorf("%s ended: %v; its log is %s", r.command.Path, r.command.ProcessState, r.log)
}

// stop kills the process, and returns its CPU time.
func (r *running) stop() time.Duration {
	_ = r.command.Process.Kill() // it fails if the process has ended
	<-r.ended
	state := r.command.ProcessState
	return state.UserTime() + state.SystemTime()
}

func (r *running) cpu() (time.Duration, error) { return cpuOf(r.command.Process.Pid) }

// get returns the body of a contestant's response for a path.
func (r *running) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("getting %s from %s: %w", path, r.command.Path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// heap returns the live heap after a garbage collection, and the peak of the resident memory so far, in
// bytes.
func (r *running) heap(ctx context.Context) (live, peak float64, err error) {
	text, err := r.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, 0, err
	}
	if live, err = lineOf(text, "# HeapAlloc = "); err != nil {
		return 0, 0, err
	}
	peak, err = r.memory("VmHWM:")
	return live, peak, err
}

// memory returns the value of a line in /proc/PID/status, in bytes.
func (r *running) memory(line string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	kilobytes, err := lineOf(strings.ReplaceAll(string(status), " kB", ""), line)
	return kilobytes * 1024, err
}

// lineOf returns the number after the prefix, in the first line that has the prefix.
func lineOf(text, prefix string) (float64, error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("no line begins with %q", prefix)
}
