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

// account is the user that PostgreSQL runs as.
type account struct{ uid, gid int }

// unprivileged is the user of this process or, of root, as which PostgreSQL does not
// run, nobody.
func unprivileged() (account, error) {
	name := strconv.Itoa(os.Geteuid())
	if name == "0" {
		name = "65534"
	}
	known, err := user.LookupId(name)
	if err != nil {
		return account{}, fmt.Errorf("PostgreSQL needs a user with a name: %w", err)
	}
	uid, _ := strconv.Atoi(known.Uid) // numbers, on Unix
	gid, _ := strconv.Atoi(known.Gid)
	return account{uid, gid}, nil
}

// command returns a command of the account's, without a terminal.
func (a account) command(ctx context.Context, env, argv []string) *exec.Cmd {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir, command.Env = "/", env
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return command
}

// Ports below those that the kernel gives to connections, so that a server which is
// started again finds its port free.
const firstPort, ports = 20000, 12000

var portsGiven atomic.Int32

// freePort is a port on which nobody listens, and which this process gives only once.
func freePort() (string, error) {
	for range ports {
		port := strconv.Itoa(firstPort + (os.Getpid()*100+int(portsGiven.Add(1)))%ports)
		if listener, err := net.Listen("tcp", ":"+port); err == nil {
			_ = listener.Close()
			return port, nil
		}
	}
	return "", errors.New("there is no free port")
}
