package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/test/framework"
)

// Pod simulates a Pod of a Database. It can run its container several times. Its volumes are directories.
type Pod struct {
	// Port is the port on which the server listens, instead of 5432.
	Port     string
	programs Programs
	dir      string
	account  account
	held     bool // whether Hold applies to the next start
	recorded bool // whether Record applies
	// environment is added to the environment of the container and of its probes.
	environment []string
}

// portInPod is the port of the server in a real Pod.
const portInPod = "5432"

// NewPod returns a Pod without volumes. Its files are removed when the test ends.
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
	dir, err := os.MkdirTemp("", "pod") // the directory holds a socket, whose path must be short
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

// Path returns the directory of a volume.
func (p *Pod) Path(volume string) string { return filepath.Join(p.dir, volume) }

// TerminationMessage returns the termination message of the last run of the container, or "".
func (p *Pod) TerminationMessage() string {
	text, _ := os.ReadFile(p.Path("termination-log"))
	return string(text)
}

// Mount replaces all files of a volume atomically, as the kubelet does with the data of a Secret. Each file is a link
// through the link ..data, which points to a directory with all files.
func (p *Pod) Mount(t *testing.T, volume string, data map[string][]byte) {
	t.Helper()
	p.volume(t, volume)
	root := p.Path(volume)
	dir, err := os.MkdirTemp(root, "..data_")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range data {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o440); err != nil {
			t.Fatal(err)
		}
		p.own(t, file)
	}
	p.own(t, dir)
	previous, _ := os.Readlink(filepath.Join(root, "..data")) // "" at the first call
	next := filepath.Join(root, "..data_tmp")
	if err := os.Symlink(filepath.Base(dir), next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(root, "..data")); err != nil {
		t.Fatal(err)
	}
	for name := range data {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(root, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	links, err := filepath.Glob(filepath.Join(root, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if _, exists := data[filepath.Base(link)]; !exists {
			_ = os.Remove(link)
		}
	}
	if previous != "" {
		_ = os.RemoveAll(filepath.Join(root, previous))
	}
}

// Start starts the container. It creates the volumes that do not exist yet.
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
	p.held = false
	running.command.Stdout, running.command.Stderr = &running.log, &running.log
	attributes := running.command.SysProcAttr
	attributes.Cloneflags, attributes.Pdeathsig = syscall.CLONE_NEWPID, syscall.SIGKILL
	if os.Geteuid() != 0 {
		uid, gid := p.account.uid, p.account.gid
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	err := running.command.Start()
	if errors.Is(err, syscall.EPERM) {
		t.Fatalf("starting the container in a new user and PID namespace: %v; the kernel creates no user namespaces "+
			"for users other than root in a chroot, or if the administrator has disabled them", err)
	}
	if err != nil {
		t.Fatalf("starting the container in a new PID namespace: %v", err)
	}
	go func() {
		_ = running.command.Wait() // Stop reads the exit code
		close(running.ended)
	}()
	t.Cleanup(running.Kill)
	if p.recorded {
		running.look()
	}
	return running
}

// volume creates a volume, unless it exists.
func (p *Pod) volume(t *testing.T, name string) {
	t.Helper()
	switch err := os.Mkdir(p.Path(name), 0o700); {
	case err == nil:
		p.own(t, p.Path(name))
	case !os.IsExist(err):
		t.Fatal(err)
	}
}

// prepare returns a command with the container's user and environment, without a terminal.
func (p *Pod) prepare(ctx context.Context, env, argv []string) *exec.Cmd {
	return p.account.command(ctx, slices.Concat([]string{"PATH=" + p.path()}, p.environment, env), argv)
}

// here replaces the port, the mount paths and the termination message path in an argument or environment variable of a
// container with the port and the paths on this machine.
func (p *Pod) here(c corev1.Container, word string) string {
	word = strings.ReplaceAll(word, portInPod, p.Port) // first, because the new paths may contain these digits
	for _, mount := range c.VolumeMounts {
		word = strings.ReplaceAll(word, mount.MountPath, p.Path(mount.Name))
	}
	return strings.ReplaceAll(word, corev1.TerminationMessagePathDefault, p.Path("termination-log"))
}

// expand expands $(VARIABLES) as the kubelet does: $$ becomes $, and references to unknown variables stay
// (k8s.io/kubernetes/third_party/forked/golang/expansion).
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

// Container is one run of the container of a Pod.
type Container struct {
	pod     *Pod
	spec    corev1.Container
	env     []string
	command *exec.Cmd
	log     framework.Log
	ended   chan struct{}
	watch   watch // used only if the Pod is recorded
}

// Log returns the output of the container so far.
func (c *Container) Log() string { return c.log.String() }

// Ended returns a channel that is closed when the container ends.
func (c *Container) Ended() <-chan struct{} { return c.ended }

// Kill ends all processes of the container with SIGKILL.
func (c *Container) Kill() {
	_ = c.command.Process.Kill()
	<-c.ended
}

// Stop ends the container as the kubelet does, with the preStop hook, if there is one, and SIGTERM. The exit code must
// be 0.
func (c *Container) Stop(t *testing.T) {
	t.Helper()
	if c.spec.Lifecycle != nil {
		c.runHook(t)
	}
	_ = c.command.Process.Signal(syscall.SIGTERM)
	<-c.ended
	if code := c.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the container ended with exit code %d, want 0; its log:\n%s", code, c.Log())
	}
}

// runHook runs the preStop hook in the namespaces of the container.
func (c *Container) runHook(t *testing.T) {
	t.Helper()
	words := []string{"nsenter", "--target", strconv.Itoa(c.command.Process.Pid), "--pid"}
	if os.Geteuid() != 0 {
		words = append(words, "--user", "--preserve-credentials")
	}
	for _, word := range c.spec.Lifecycle.PreStop.Exec.Command {
		words = append(words, c.pod.here(c.spec, word))
	}
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Env = append(os.Environ(), c.env...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("running the preStop hook: %v: %s", err, output)
	}
}

// Probe runs the command of a probe. It returns an error if the probe fails.
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
