// Package framework provides clusters with Windlass installed, for tests: a local Kubernetes, started with the binary
// that hack/cluster builds; operators, which run the shipped binary with the ServiceAccount in artifacts/rbac; tenants;
// and objects of every kind with all fields. A cluster ends when the test process ends, even if the process crashes.
package framework

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is a running cluster.
type Cluster struct {
	binary, dir string
	config      *rest.Config
	command     *exec.Cmd
	audited     *audited

	mu        sync.Mutex // allows one command at a time
	input     io.WriteCloser
	responses *bufio.Scanner
	output    bytes.Buffer // standard error of the supervisor
}

const (
	// Audit is the option that enables the API server's audit log, which Requests and AuditLog read.
	Audit = "--audit"
	// RareGC is the option that makes all components collect garbage less often, because the CPUs limit the speed of
	// tests.
	RareGC = "--gogc=400"
)

// StartCluster starts a cluster with its files in dir, and returns when the cluster is ready. Options are
// arguments of the command line, such as Audit. The caller closes the cluster.
func StartCluster(dir string, options ...string) (*Cluster, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	c := &Cluster{binary: filepath.Join(root, "bin", "kubernetes"), dir: dir, audited: auditedIn(dir)}
	if _, err := os.Stat(c.binary); err != nil {
		return nil, fmt.Errorf("finding the local Kubernetes (`make bin/kubernetes` builds it): %w", err)
	}
	c.command = exec.Command(c.binary, append([]string{"run", "--dir", dir}, options...)...)
	c.command.Stderr = &c.output
	if c.input, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.responses = bufio.NewScanner(output)
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	if !c.responses.Scan() || c.responses.Text() != "ready" {
		return nil, errors.Join(errors.New("the cluster did not become ready"), c.Close(), errors.New(c.output.String()))
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.config.QPS = -1
	return c, nil
}

// Close stops the cluster and all its processes.
func (c *Cluster) Close() error {
	_ = c.input.Close() // the supervisor stops at the end of its input
	return c.command.Wait()
}

// Config returns the administrator's client configuration, without a rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Stop stops a component, for example kube-apiserver, gracefully.
func (c *Cluster) Stop(component string) error { return c.send("stop " + component) }

// Kill stops a component at once.
func (c *Cluster) Kill(component string) error { return c.send("kill " + component) }

// StartComponent starts a stopped component, and returns when the API server is ready. The component gets
// its own flags and the given flags, which must not contain spaces.
func (c *Cluster) StartComponent(component string, flags ...string) error {
	// a cluster without Audit has no log
	if err := c.audited.forgetPending(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.send(strings.Join(append([]string{"start", component}, flags...), " "))
}

// Compact removes the history of all objects, so that the API server rejects watches from older
// resource versions.
func (c *Cluster) Compact() error { return c.send("compact") }

// send sends a command to the supervisor, and waits for its response.
func (c *Cluster) send(command string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.input, command); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if !c.responses.Scan() {
		return fmt.Errorf("%s: the cluster ended: %s", command, c.output.String())
	}
	if response := c.responses.Text(); response != "ok" {
		return fmt.Errorf("%s: %s", command, response)
	}
	return nil
}

// Kubectl runs kubectl as the administrator, with input on its standard input. It returns the standard output
// of kubectl, and after a failure also the standard error. Warnings are dropped.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.binary, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	var output, failure strings.Builder
	command.Env = append(os.Environ(), "KUBECTL_APPLYSET=true") // enables the flag --applyset
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &output, &failure
	if err := command.Run(); err != nil {
		return output.String() + failure.String(), fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err,
			output.String(), failure.String())
	}
	return output.String(), nil
}

// Shell runs a line of shell in which kubectl is the kubectl of the cluster. It returns the output, with the error
// output if the line fails.
func (c *Cluster) Shell(ctx context.Context, line string) (string, error) {
	command := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf("kubectl() { %q kubectl \"$@\"; }\n%s", c.binary, line))
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s: %w: %s", line, err, output)
	}
	return string(output), nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a ServiceAccount, and returns its path.
// The token is valid for 12 hours.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	hours := int64(12 * 60 * 60)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	path := filepath.Join(c.dir, name+".kubeconfig")
	return path, clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"test": {Server: c.config.Host, CertificateAuthorityData: c.config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*api.Context{name: {Cluster: "test", AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}, path)
}

// Root returns the directory of the main module: the working directory or its nearest parent that has the manifests of
// Windlass. Suites can be modules of their own.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "artifacts", "crds")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding the main module: no artifacts/crds in the working directory or its parents")
		}
	}
}
