package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// component is a program of the cluster, with its arguments.
type component struct {
	name string
	args []string
}

// process is a running component.
type process struct {
	name     string
	command  *exec.Cmd
	ended    chan struct{}
	expected bool // whether the supervisor ends the process
}

// supervisor starts and ends the components of a cluster.
type supervisor struct {
	cluster *cluster
	self    string
	mu      sync.Mutex
	running []*process
	died    chan string // names of components that have ended unexpectedly
}

func newSupervisor(c *cluster) (*supervisor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the path of this program: %w", err)
	}
	return &supervisor{cluster: c, self: self, died: make(chan string, 16)}, nil
}

// start starts a component with its own flags and the given flags. It fails if the component is running.
func (s *supervisor) start(name string, flags ...string) error {
	all := s.cluster.components()
	i := slices.IndexFunc(all, func(c component) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("unknown component %q", name)
	}
	if s.find(name) != nil {
		return fmt.Errorf("%s is already running", name)
	}
	log, err := os.OpenFile(s.cluster.path("log/"+name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{
		name: name, command: exec.Command(s.self, slices.Concat([]string{name}, all[i].args, flags)...),
		ended: make(chan struct{}),
	}
	if s.cluster.gogc > 0 {
		p.command.Env = append(os.Environ(), fmt.Sprintf("GOGC=%d", s.cluster.gogc))
	}
	p.command.Stdout, p.command.Stderr, p.command.SysProcAttr = log, log, processAttributes()
	started := make(chan error)
	go s.keep(p, started)
	return <-started
}

// keep starts a process, sends the result to started, and waits until the process ends. The kernel sends Pdeathsig when
// the thread that started the process ends, so this goroutine keeps its thread.
func (s *supervisor) keep(p *process, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.command.Start(); err != nil {
		started <- fmt.Errorf("starting %s: %w", p.name, err)
		return
	}
	s.mu.Lock()
	s.running = append(s.running, p)
	s.mu.Unlock()
	started <- nil
	_ = p.command.Wait() // the log of the process has the reason
	s.mu.Lock()
	s.running = slices.DeleteFunc(s.running, func(other *process) bool { return other == p })
	expected := p.expected
	s.mu.Unlock()
	close(p.ended)
	if !expected {
		s.died <- p.name
	}
}

func (s *supervisor) find(name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.running {
		if p.name == name {
			return p
		}
	}
	return nil
}

// end sends a signal to a component, and SIGKILL if the component has not ended after 10 s. It waits until the
// component has ended.
func (s *supervisor) end(name string, signal syscall.Signal) error {
	p := s.find(name)
	if p == nil {
		return fmt.Errorf("%s is not running", name)
	}
	s.mu.Lock()
	p.expected = true
	s.mu.Unlock()
	_ = p.command.Process.Signal(signal)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.command.Process.Kill()
		<-p.ended
	}
	return nil
}

// endAll kills all components that are running. They need no time to shut down, because nobody uses their data again.
func (s *supervisor) endAll() {
	for _, c := range slices.Backward(s.cluster.components()) {
		if s.find(c.name) != nil {
			_ = s.end(c.name, syscall.SIGKILL)
		}
	}
}

// startAll starts all components and waits until Pods can run.
func (s *supervisor) startAll(ctx context.Context) error {
	for _, c := range s.cluster.components() {
		if err := s.start(c.name); err != nil {
			return err
		}
		if c.name == "kube-apiserver" {
			if err := s.await(ctx, s.cluster.serving); err != nil {
				return err
			}
		}
	}
	return s.await(ctx, s.cluster.usable)
}

// await polls holds until it returns nil, ctx ends, or a component ends unexpectedly.
func (s *supervisor) await(ctx context.Context, holds func(context.Context) error) error {
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case name := <-s.died:
			return s.obituary(name)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// obituary returns the error for a component that has ended unexpectedly, with the end of its log.
func (s *supervisor) obituary(name string) error {
	data, _ := os.ReadFile(s.cluster.path("log/" + name + ".log"))
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return fmt.Errorf("%s ended unexpectedly; the last lines of its log:\n%s", name,
		strings.Join(lines[max(0, len(lines)-5):], "\n"))
}
