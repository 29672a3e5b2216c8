package place

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/world"
)

// Process is a controller that runs, with the rights of its service account and no
// others.
type Process struct {
	command *exec.Cmd
	// Log is what the controller has written so far.
	Log Log
	// WebhookURL is where it converts Ats.
	WebhookURL string
	// Health is the host and port of its endpoints.
	Health string
}

// allowedHosts is the flag that says where the servers of ExternalDatabases may be.
const allowedHosts = "--external-database-allowed-hosts="

// StartController starts a controller and returns when it is ready. Of a flag that is
// given twice the last counts, so that flags may say otherwise; only those of lists add to
// each other, so that the servers of ExternalDatabases may be on this machine unless flags
// say where they may be. Two on one cluster need one webhook URL.
func StartController(ctx context.Context, c *cluster.Cluster, flags ...string) (*Process, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	return startReady(ctx, root, c, flags)
}

// startReady is StartController for the controller of the checkout at root.
func startReady(ctx context.Context, root string, c *cluster.Cluster, flags []string) (*Process, error) {
	p, err := begin(ctx, root, c, flags)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, world.Patience, true, func(context.Context) (bool, error) {
		return p.Ready(), nil
	})
	if err != nil {
		p.Terminate()
		return nil, fmt.Errorf("the controller did not become ready: %w; its log:\n%s", err, p.Log.String())
	}
	return p, nil
}

// Begin starts a controller, with further flags, and does not wait until it is ready.
func Begin(t *testing.T, c *cluster.Cluster, flags ...string) *Process {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	p, err := begin(t.Context(), root, c, flags)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begin starts the controller of the checkout at root.
func begin(ctx context.Context, root string, c *cluster.Cluster, flags []string) (*Process, error) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, "windlass-system", "windlass-controller")
	if err != nil {
		return nil, err
	}
	health, webhook := OwnAddress(), OwnAddress()
	p := &Process{WebhookURL: "https://" + webhook + "/convert", Health: health}
	flags = append([]string{"--kubeconfig", kubeconfig, "-v=2", "--bind-address", health,
		"--webhook-bind-address", webhook, "--webhook-url", p.WebhookURL,
		"--external-database-untrusted-extensions", "pageinspect"}, flags...)
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, allowedHosts) }) {
		flags = append(flags, allowedHosts+"127.0.0.0/8,::1")
	}
	p.command = exec.Command(filepath.Join(root, "bin", "controller"), flags...)
	p.command.Stdout, p.command.Stderr = &p.Log, &p.Log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the controller (`make build` makes it): %w", err)
	}
	return p, nil
}

// Ready reports whether the controller says that it is ready.
func (p *Process) Ready() bool {
	response, err := http.Get("http://" + p.Health + "/readyz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Get asks one of the controller's endpoints.
func (p *Process) Get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + p.Health + path)
	if err != nil {
		t.Fatalf("asking for %s: %v", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("asking for %s: status %d, %v", path, response.StatusCode, err)
	}
	return string(body)
}

// Terminate ends the controller as a cluster would, and returns its exit code.
func (p *Process) Terminate() int {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	_ = p.command.Wait() // its exit code says it all
	return p.command.ProcessState.ExitCode()
}

// KeepLog writes the log into bin/NAME, where somebody who looks for the cause of a failure finds it.
func (p *Process) KeepLog(name string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	file := filepath.Join(root, "bin", name)
	if err := os.WriteFile(file, p.Log.Bytes(), 0o600); err != nil {
		return fmt.Errorf("keeping the controller's log: %w", err)
	}
	fmt.Fprintf(os.Stderr, "The controller's log is in %s.\n", file)
	return nil
}

// Kill ends the controller without a word.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// addresses counts the addresses that this process has handed out.
var addresses atomic.Uint32

// OwnAddress returns a host and port on which nobody else listens and from which
// nobody connects: it lies on a loopback address of this process's own. A port that
// is merely free now may be the source of somebody's connection by the time that it
// is bound.
func OwnAddress() string {
	pid := uint32(os.Getpid())
	ip := net.IPv4(127, byte(pid>>16)|1<<7, byte(pid>>8), byte(pid)) // the bit keeps it from 127.0.0.1
	return net.JoinHostPort(ip.String(), strconv.Itoa(9443+int(addresses.Add(1))))
}

// Launch starts a controller on a cluster, with further flags.
func Launch(t *testing.T, c *cluster.Cluster, flags ...string) *Process {
	t.Helper()
	p, err := StartController(t.Context(), c, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
