package main

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// cluster is one cluster: a directory with all that it has, and its ports.
type cluster struct {
	dir   string
	audit bool
	// reserved are ports of 127.0.0.1 that are bound here without listening, so
	// that no other cluster gets them, and that the components share.
	apiPort, etcdPort int
}

// components are what a cluster is made of, in the order in which they start.
func (c *cluster) components() []component {
	kubeconfig := "--kubeconfig=" + c.path("kubeconfig")
	return []component{
		{"etcd", []string{
			"--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn", "--socket-reuse-port",
			"--listen-client-urls=" + c.etcdURL(), "--advertise-client-urls=" + c.etcdURL(),
			"--listen-peer-urls=unix://" + c.path("peer.sock:0"), "--initial-advertise-peer-urls=http://localhost:2380",
			"--initial-cluster=default=http://localhost:2380",
		}},
		{"kube-apiserver", c.apiserver()},
		{"kube-controller-manager", []string{
			kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=-1", "--concurrent-gc-syncs=20",
			"--service-account-private-key-file=" + c.path("accounts.key"), "--root-ca-file=" + c.path("apiserver.crt"),
		}},
		{"kube-scheduler", []string{kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000"}},
		{"kwok", []string{kubeconfig, "--config=" + c.path("stages.yaml"), "--manage-all-nodes", "--server-address="}},
	}
}

func (c *cluster) apiserver() []string {
	args := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.apiPort), "--permit-port-sharing",
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("accounts.key"), "--service-account-signing-key-file=" + c.path("accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
	if c.audit {
		args = append(args, "--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.path("audit.log"), "--audit-log-mode=blocking",
			"--audit-log-maxsize=0") // whoever counts requests needs the first of them, too
	}
	return args
}

func (c *cluster) url() string     { return fmt.Sprintf("https://127.0.0.1:%d", c.apiPort) }
func (c *cluster) etcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort) }

// reservePort binds a free port of 127.0.0.1 for as long as this process lives.
// With SO_REUSEPORT others of the same user may bind it too, and those that listen
// get the connections.
func reservePort() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}); err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	return address.(*unix.SockaddrInet4).Port, nil
}

// processAttributes let a component die with the supervisor, however that ends.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
