// Package cluster starts a real Kubernetes for tests: the one that hack/cluster
// builds. It ends with the test process, however that ends.
package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// Cluster is a cluster that runs.
type Cluster struct {
	binary, dir string
	config      *rest.Config
	command     *exec.Cmd
	audited     audited

	mu      sync.Mutex // one command at a time
	input   io.WriteCloser
	answers *bufio.Scanner
	output  bytes.Buffer // the supervisor's errors
}

// Audit is the option that has the API server note each request, for Requests.
const Audit = "--audit"

// Start starts a cluster whose files are in dir, and returns when it is ready. Options
// are those of its command line, such as Audit. The caller closes it.
func Start(dir string, options ...string) (*Cluster, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	c := &Cluster{binary: filepath.Join(root, "bin", "kubernetes"), dir: dir}
	if _, err := os.Stat(c.binary); err != nil {
		return nil, fmt.Errorf("there is no local Kubernetes: run `make bin/kubernetes` (%w)", err)
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
	c.answers = bufio.NewScanner(output)
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	if !c.answers.Scan() || c.answers.Text() != "ready" {
		return nil, errors.Join(errors.New("the cluster did not become ready"), c.Close(), errors.New(c.output.String()))
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.config.QPS = -1
	return c, nil
}

// Close ends the cluster and all its processes.
func (c *Cluster) Close() error {
	_ = c.input.Close() // which is what ends it
	return c.command.Wait()
}

// Config is the administrator's, without a limit of requests.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Stop ends a component, for example kube-apiserver, in order.
func (c *Cluster) Stop(component string) error { return c.order("stop " + component) }

// Kill ends a component at once.
func (c *Cluster) Kill(component string) error { return c.order("kill " + component) }

// StartComponent starts a component that was stopped, and returns when the API
// server is ready.
func (c *Cluster) StartComponent(component string) error { return c.order("start " + component) }

// Compact forgets the history of all objects, so that watches of older versions
// are refused.
func (c *Cluster) Compact() error { return c.order("compact") }

func (c *Cluster) order(command string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.input, command); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if !c.answers.Scan() {
		return fmt.Errorf("%s: the cluster has ended: %s", command, c.output.String())
	}
	if answer := c.answers.Text(); answer != "ok" {
		return fmt.Errorf("%s: %s", command, answer)
	}
	return nil
}

// Kubectl runs kubectl as the administrator, with input on its standard input. It returns the standard output
// of kubectl, and after a failure its errors too. Warnings are dropped.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.binary, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	var output, failure strings.Builder
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &output, &failure
	if err := command.Run(); err != nil {
		return output.String() + failure.String(), fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, output.String(), failure.String())
	}
	return output.String(), nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a service account,
// and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	hours := int64(12 * 60 * 60)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a token for service account %s/%s: %w", namespace, name, err)
	}
	path := filepath.Join(c.dir, name+".kubeconfig")
	return path, clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"test": {Server: c.config.Host, CertificateAuthorityData: c.config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*api.Context{name: {Cluster: "test", AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}, path)
}

// Root is the directory of the module, found from the working directory upwards.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("there is no go.mod here or above")
		}
	}
}
