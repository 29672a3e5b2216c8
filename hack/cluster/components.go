package main

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// cluster is a local cluster. All its files are in dir.
type cluster struct {
	dir   string
	audit bool
	gogc  int // GOGC of all components; 0 means the value in the environment
	// apiPort and etcdPort are ports of 127.0.0.1. This process binds the ports without listening, so that no other
	// cluster gets them. The components also bind the ports.
	apiPort, etcdPort int
}

// components returns the components of a cluster, in the order in which they start.
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
		{
			"kube-scheduler", []string{
				kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000",
			},
		},
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
		"--service-account-key-file=" + c.path("accounts.key"), "--service-account-signing-key-file=" +
			c.path("accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
	if c.audit {
		args = append(args, "--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.path("audit.log"),
			"--audit-log-mode=blocking",
			"--audit-log-maxsize=0") // the log keeps all requests, for tests that count them
	}
	return args
}

func (c *cluster) url() string     { return fmt.Sprintf("https://127.0.0.1:%d", c.apiPort) }
func (c *cluster) etcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort) }

// reservePort binds a free port of 127.0.0.1 until this process ends. With SO_REUSEPORT, other processes of the same
// user can bind the port too. Only processes that listen get connections.
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

// processAttributes returns attributes that make the kernel kill a component when the supervisor ends for any reason.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
