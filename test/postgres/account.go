package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync/atomic"
	"syscall"
)

// account is the Unix user that runs PostgreSQL.
type account struct{ uid, gid int }

// unprivileged returns the user of this process. For root, it returns the user nobody, because PostgreSQL does not run
// as root.
func unprivileged() (account, error) {
	name := strconv.Itoa(os.Geteuid())
	if name == "0" {
		name = "65534"
	}
	known, err := user.LookupId(name)
	if err != nil {
		return account{}, fmt.Errorf("looking up the user that runs PostgreSQL: %w", err)
	}
	uid, _ := strconv.Atoi(known.Uid) // always a number on Unix
	gid, _ := strconv.Atoi(known.Gid)
	return account{uid, gid}, nil
}

// command returns a command that runs as the account, without a terminal.
func (a account) command(ctx context.Context, env, argv []string) *exec.Cmd {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir, command.Env = "/", env
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return command
}

// The first port and the number of the ports that freePort returns. These ports lie below the kernel's range for
// outgoing connections, so no connection takes the port of a server while the server restarts.
const firstPort, ports = 20000, 12000

var portsGiven atomic.Int32

// freePort returns a port on which no process listens. It returns a port again only after all other ports.
func freePort() (string, error) {
	for range ports {
		port := strconv.Itoa(firstPort + (os.Getpid()*100+int(portsGiven.Add(1)))%ports)
		if listener, err := net.Listen("tcp", ":"+port); err == nil {
			_ = listener.Close()
			return port, nil
		}
	}
	return "", errors.New("finding a free port: all ports in the range are in use")
}
