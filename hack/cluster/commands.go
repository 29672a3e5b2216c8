package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is the timeout for a cluster to become ready.
const patience = time.Minute

// own executes the command run, up or down.
func own(name string, args []string) error {
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	dir := flags.String("dir", ".cluster", "directory of the cluster")
	audit := flags.Bool("audit", false, "write DIR/audit.log")
	gogc := flags.Int("gogc", 0, "GOGC of all components: a larger number needs more memory and less CPU time; 0 "+
		"means that of the environment")
	daemon := flags.Bool("daemon", false, "keep running after the end of standard input")
	if err := flags.Parse(args); err != nil {
		return err
	}
	path, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	c := &cluster{dir: path, audit: *audit, gogc: *gogc}
	switch name {
	case "run":
		return c.run(*daemon)
	case "up":
		return c.up()
	default:
		return c.down()
	}
}

// run starts a cluster. It stops the cluster on a signal, if a component ends unexpectedly, and, unless daemon is
// set, at the end of standard input.
func (c *cluster) run(daemon bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if c.apiPort, err = reservePort(); err != nil {
		return err
	}
	if c.etcdPort, err = reservePort(); err != nil {
		return err
	}
	if err := c.write(); err != nil {
		return fmt.Errorf("preparing %s: %w", c.dir, err)
	}
	s, err := newSupervisor(c)
	if err != nil {
		return err
	}
	defer s.endAll()
	starting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.startAll(starting); err != nil {
		if ctx.Err() != nil {
			return nil // a signal arrived before the cluster was ready
		}
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := simulateVolumes(ctx, client); err != nil {
		return err
	}
	fmt.Println("ready")
	if err := os.WriteFile(c.path("ready"), nil, 0o600); err != nil {
		return err
	}
	lines := make(chan string)
	if !daemon {
		go read(os.Stdin, lines)
	}
	return s.serve(ctx, lines)
}

// read sends the lines of r to a channel, and closes the channel at the end of r.
func read(r io.Reader, lines chan<- string) {
	defer close(lines)
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		lines <- scanner.Text()
	}
}

// serve executes the commands in lines until lines is closed, ctx ends, or a component ends unexpectedly.
func (s *supervisor) serve(ctx context.Context, lines <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-s.died:
			return s.obituary(name)
		case line, more := <-lines:
			if !more {
				return nil
			}
			response := "ok"
			if err := s.carryOut(ctx, strings.Fields(line)); err != nil {
				response = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
			}
			fmt.Println(response)
		}
	}
}

func (s *supervisor) carryOut(ctx context.Context, words []string) error {
	switch {
	case len(words) == 1 && words[0] == "compact":
		return s.cluster.compact(ctx)
	case len(words) == 2 && words[0] == "stop":
		return s.end(words[1], syscall.SIGTERM)
	case len(words) == 2 && words[0] == "kill":
		return s.end(words[1], syscall.SIGKILL)
	case len(words) >= 2 && words[0] == "start":
		if err := s.start(words[1], words[2:]...); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return s.await(ctx, s.cluster.serving)
	default:
		return fmt.Errorf("unknown command %q: it must be stop NAME, kill NAME, start NAME [FLAG...] or compact",
			strings.Join(words, " "))
	}
}

// up starts a cluster in the background and waits until it is ready.
func (c *cluster) up() error {
	if c.supervised() != 0 {
		fmt.Printf("The cluster in %s is already running.\n  export KUBECONFIG=%s\n", c.dir, c.path("kubeconfig"))
		return nil
	}
	if err := c.remove(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("log"), 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(c.path("log/supervisor.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(self, "run", "--daemon", "--dir", c.dir)
	command.Stdout, command.Stderr, command.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("pid"), []byte(strconv.Itoa(command.Process.Pid)), 0o600); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	fmt.Printf("Starting etcd, the API server, controllers, the scheduler and a node ...")
	for {
		if _, err := os.Stat(c.path("ready")); err == nil {
			fmt.Printf(" ready.\n  export KUBECONFIG=%s\n", c.path("kubeconfig"))
			return nil
		}
		select {
		case <-ended:
			words, _ := os.ReadFile(c.path("log/supervisor.log"))
			return fmt.Errorf("the cluster did not start:\n%s", words)
		case <-time.After(500 * time.Millisecond):
			fmt.Print(".")
		}
	}
}

// down stops the cluster that up has started, and removes its directory.
func (c *cluster) down() error {
	if pid := c.supervised(); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("stopping process %d: %w", pid, err)
		}
		for c.supervised() != 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return c.remove()
}

// remove removes the directory of the cluster. It fails if the directory contains files that are not the files of a
// cluster.
func (c *cluster) remove() error {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours := func(e os.DirEntry) bool { return e.Name() == "pid" || e.Name() == "tokens.csv" }
	if len(entries) > 0 && !slices.ContainsFunc(entries, ours) {
		return fmt.Errorf("removing %s: the directory is not empty, but has no cluster; remove it yourself, or set "+
			"--dir to another directory", c.dir)
	}
	return os.RemoveAll(c.dir)
}

// supervised returns the ID of the process that runs the cluster of this directory, or 0.
func (c *cluster) supervised() int {
	data, err := os.ReadFile(c.path("pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(line), c.dir+"\x00") {
		return 0
	}
	return pid
}
