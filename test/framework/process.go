package framework

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
)

// Process is a running controller. It has only the permissions of its ServiceAccount.
type Process struct {
	command *exec.Cmd
	// Log holds the controller's log.
	Log Log
	// WebhookURL is the URL of the conversion webhook for Ats.
	WebhookURL string
	// Health is the host and port of the endpoints for health and metrics.
	Health string
}

// allowedHosts is the flag that lists the addresses that servers of ExternalDatabases may have.
const allowedHosts = "--external-database-allowed-hosts="

// plainMetrics is the flag that serves the metrics at the address of Process.Health.
const plainMetrics = "--metrics-secure=false"

// withoutPods is the flag for a cluster whose node only simulates Pods: no server responds at their addresses.
const withoutPods = "--connect-to-databases=false"

// StartController starts a controller, and returns when the controller is ready. flags override the default flags,
// except for flags with lists: their values are added to the default values. ExternalDatabases may use servers on this
// machine unless flags contains --external-database-allowed-hosts. Two controllers in one cluster need the same webhook
// URL.
func StartController(ctx context.Context, c *Cluster, flags ...string) (*Process, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return startReady(ctx, root, c, flags)
}

// startReady starts the controller of the checkout at root, and returns when it is ready.
func startReady(ctx context.Context, root string, c *Cluster, flags []string) (*Process, error) {
	p, err := begin(ctx, root, c, append([]string{plainMetrics, withoutPods}, flags...))
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(context.Context) (bool, error) {
		return p.Ready(), nil
	})
	if err != nil {
		p.Terminate()
		return nil, fmt.Errorf("waiting for the controller to become ready: %w; its log:\n%s", err, p.Log.String())
	}
	return p, nil
}

// Begin starts a controller with additional flags. It does not wait until the controller is ready.
func Begin(t *testing.T, c *Cluster, flags ...string) *Process {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	p, err := begin(t.Context(), root, c, append([]string{plainMetrics}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begin starts the controller of the checkout at root, and does not wait until it is ready.
func begin(ctx context.Context, root string, c *Cluster, flags []string) (*Process, error) {
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
		return nil, fmt.Errorf("starting the controller (`make build` builds it): %w", err)
	}
	return p, nil
}

// Ready reports whether the endpoint /readyz responds with status 200.
func (p *Process) Ready() bool {
	response, err := http.Get("http://" + p.Health + "/readyz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Get returns the response of one of the controller's endpoints. It fails the test unless the status is 200.
func (p *Process) Get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + p.Health + path)
	if err != nil {
		t.Fatalf("getting %s: %v", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("getting %s: status %d, %v", path, response.StatusCode, err)
	}
	return string(body)
}

// Terminate ends the controller with SIGTERM, as the kubelet does, and returns its exit code.
func (p *Process) Terminate() int {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	return p.Wait()
}

// Wait waits until the controller ends, and returns its exit code. It returns -1 if it has to kill the controller
// after Patience.
func (p *Process) Wait() int {
	defer time.AfterFunc(Patience, func() { _ = p.command.Process.Kill() }).Stop()
	_ = p.command.Wait() // the exit code says what failed
	return p.command.ProcessState.ExitCode()
}

// KeepLog writes the log to the file bin/NAME, and prints the path to standard error.
func (p *Process) KeepLog(name string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	file := filepath.Join(root, "bin", name)
	if err := os.WriteFile(file, p.Log.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the controller's log: %w", err)
	}
	fmt.Fprintf(os.Stderr, "The controller's log is in %s.\n", file)
	return nil
}

// Kill ends the controller with SIGKILL.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// Freeze stops the controller with SIGSTOP, until Thaw lets it continue.
func (p *Process) Freeze() error { return p.command.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen controller continue.
func (p *Process) Thaw() error { return p.command.Process.Signal(syscall.SIGCONT) }

// Identity returns the identity with which the controller holds Leases.
func (p *Process) Identity(t *testing.T) (identity string) {
	t.Helper()
	Eventually(t, "the controller to log its identity", func(context.Context) (bool, error) {
		_, line, _ := strings.Cut(p.Log.String(), `identity="`)
		identity, _, _ = strings.Cut(line, `"`)
		return identity != "", nil
	})
	return identity
}

// addresses counts the addresses that OwnAddress has returned.
var addresses atomic.Uint32

// OwnAddress returns a host and port that no other process uses. The host is a loopback address
// that belongs to this process alone. On a shared address, a port that is free now could become the source
// port of another connection before the controller listens on it.
func OwnAddress() string {
	pid := uint32(os.Getpid())
	ip := net.IPv4(127, byte(pid>>16)|1<<7, byte(pid>>8), byte(pid)) // the bit excludes 127.0.0.1
	return net.JoinHostPort(ip.String(), strconv.Itoa(9443+int(addresses.Add(1))))
}

// lastLines is the number of lines that a failed test prints from the end of a controller's log.
const lastLines = 20

// Launch starts a controller with additional flags in a cluster, and returns when the controller is ready. If the
// test fails, it prints the end of the controller's log.
func Launch(t *testing.T, c *Cluster, flags ...string) *Process {
	t.Helper()
	p, err := StartController(t.Context(), c, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(p.Log.String()), "\n")
			t.Logf("the end of the controller's log:\n%s", strings.Join(lines[max(0, len(lines)-lastLines):], "\n"))
		}
	})
	return p
}
