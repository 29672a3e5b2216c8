package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Pod is a place where a container runs, again and again. Its volumes are directories.
type Pod struct {
	// Port is where the server listens, instead of 5432.
	Port     string
	programs Programs
	dir      string
	account  account
}

// portInPod is the one in the Pod, where it is alone.
const portInPod = "5432"

// NewPod returns a Pod with empty volumes. It is gone with the test.
func NewPod(t *testing.T) *Pod {
	t.Helper()
	programs, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	account, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pod") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Pod{Port: port, programs: programs, dir: dir, account: account}
	p.own(t, dir)
	return p
}

func (p *Pod) own(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, p.account.uid, p.account.gid); err != nil {
		t.Fatal(err)
	}
}

// Path is where a volume is.
func (p *Pod) Path(volume string) string { return filepath.Join(p.dir, volume) }

// TerminationMessage is what the container has left.
func (p *Pod) TerminationMessage() string {
	text, _ := os.ReadFile(p.Path("termination-log"))
	return string(text)
}

// Write puts a file into a volume, as the kubelet would: at once and whole.
func (p *Pod) Write(t *testing.T, volume, name string, data []byte) {
	t.Helper()
	p.volume(t, volume)
	next := p.Path("next")
	if err := os.WriteFile(next, data, 0o440); err != nil {
		t.Fatal(err)
	}
	p.own(t, next)
	if err := os.Rename(next, filepath.Join(p.Path(volume), name)); err != nil {
		t.Fatal(err)
	}
}

// Start starts the container. Volumes that it mounts are there before, or made empty.
func (p *Pod) Start(t *testing.T, c corev1.Container) *Container {
	t.Helper()
	for _, mount := range c.VolumeMounts {
		p.volume(t, mount.Name)
	}
	_ = os.Remove(p.Path("termination-log"))
	running := &Container{pod: p, spec: c, ended: make(chan struct{})}
	values := map[string]string{}
	for _, variable := range c.Env {
		values[variable.Name] = expand(variable.Value, values)
		running.env = append(running.env, variable.Name+"="+p.here(c, values[variable.Name]))
	}
	var argv []string
	for _, word := range append(c.Command[:len(c.Command):len(c.Command)], c.Args...) {
		argv = append(argv, p.here(c, expand(word, values)))
	}
	running.command = p.prepare(context.Background(), running.env, argv)
	running.command.Stdout, running.command.Stderr = &running.log, &running.log
	attributes := running.command.SysProcAttr
	attributes.Cloneflags, attributes.Pdeathsig = syscall.CLONE_NEWPID, syscall.SIGKILL
	if os.Geteuid() != 0 {
		uid, gid := p.account.uid, p.account.gid
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	if err := running.command.Start(); err != nil {
		t.Fatalf("starting the container, which needs a PID namespace of its own: %v", err)
	}
	go func() {
		_ = running.command.Wait() // its exit code says it all
		close(running.ended)
	}()
	t.Cleanup(running.Kill)
	return running
}

// volume makes a volume, unless it is there.
func (p *Pod) volume(t *testing.T, name string) {
	t.Helper()
	switch err := os.Mkdir(p.Path(name), 0o700); {
	case err == nil:
		p.own(t, p.Path(name))
	case !os.IsExist(err):
		t.Fatal(err)
	}
}

// prepare returns a command of the container's user and environment, without a
// terminal.
func (p *Pod) prepare(ctx context.Context, env, argv []string) *exec.Cmd {
	return p.account.command(ctx, append([]string{"PATH=" + p.programs.Dir + ":/usr/bin:/bin"}, env...), argv)
}

// here is a word of the Pod with the paths and the port of this machine.
func (p *Pod) here(c corev1.Container, word string) string {
	word = strings.ReplaceAll(word, portInPod, p.Port) // first: paths of this machine may have these digits
	for _, mount := range c.VolumeMounts {
		word = strings.ReplaceAll(word, mount.MountPath, p.Path(mount.Name))
	}
	return strings.ReplaceAll(word, corev1.TerminationMessagePathDefault, p.Path("termination-log"))
}

// expand does what the kubelet does with $(VARIABLES): $$ is a $, and what it does not
// know stays (k8s.io/kubernetes/third_party/forked/golang/expansion).
func expand(text string, values map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "$$"):
			out.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$("):
			end := strings.IndexByte(rest, ')')
			value, known := "", false
			if end > 0 {
				value, known = values[rest[2:end]]
			}
			if !known {
				out.WriteByte('$')
				continue
			}
			out.WriteString(value)
			i += end
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

// Container is one run of the container.
type Container struct {
	pod     *Pod
	spec    corev1.Container
	env     []string
	command *exec.Cmd
	log     log
	ended   chan struct{}
}

// Log is what the container has printed so far.
func (c *Container) Log() string { return c.log.String() }

// Ended is closed when the container has ended.
func (c *Container) Ended() <-chan struct{} { return c.ended }

// Kill ends it, and all that runs in it, with SIGKILL.
func (c *Container) Kill() {
	_ = c.command.Process.Kill()
	<-c.ended
}

// Stop ends it as the kubelet does: with its hook, and SIGTERM.
func (c *Container) Stop(t *testing.T) {
	t.Helper()
	hook := c.spec.Lifecycle.PreStop.Exec
	words := []string{"nsenter", "--target", strconv.Itoa(c.command.Process.Pid), "--pid"}
	if os.Geteuid() != 0 {
		words = append(words, "--user", "--preserve-credentials")
	}
	for _, word := range hook.Command {
		words = append(words, c.pod.here(c.spec, word))
	}
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Env = append(os.Environ(), c.env...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the hook failed: %v: %s", err, output)
	}
	_ = c.command.Process.Signal(syscall.SIGTERM)
	<-c.ended
	if code := c.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ended with exit code %d; its log:\n%s", code, c.Log())
	}
}

// Probe runs a probe's command, and returns what was wrong.
func (c *Container) Probe(ctx context.Context, probe *corev1.Probe) error {
	var argv []string
	for _, word := range probe.Exec.Command {
		argv = append(argv, c.pod.here(c.spec, word))
	}
	output, err := c.pod.prepare(ctx, c.env, argv).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
