package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/util/wait"

	"windlass.dev/windlass/test/framework"
)

// Server is a PostgreSQL server outside of any cluster. By default it logs all statements.
type Server struct {
	// Port is the port on which the server listens, on 127.0.0.1.
	Port string
	// Superuser is the role that initdb creates, and Password its password.
	Superuser, Password string

	programs Programs
	account  account
	dir      string
	log      framework.Log
	running  *exec.Cmd
}

// startPatience is the timeout for the start of a server.
const startPatience = time.Minute

// NewServer creates and starts a server whose superuser is postgres. Settings have the form name=value, and become
// arguments of the server's command line. The caller removes the server with Remove.
func NewServer(ctx context.Context, settings ...string) (*Server, error) {
	return NewServerOf(ctx, "postgres", settings...)
}

// NewServerOf creates and starts a server whose superuser has the given name instead of postgres, as the
// official image does for POSTGRES_USER.
func NewServerOf(ctx context.Context, superuser string, settings ...string) (*Server, error) {
	programs, err := Find()
	if err != nil {
		return nil, err
	}
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "server")
	if err != nil {
		return nil, err
	}
	s := &Server{Superuser: superuser, Password: "canary-of-the-superuser", programs: programs, account: account, dir: dir}
	if s.Port, err = freePort(); err == nil {
		err = s.make(ctx)
	}
	if err == nil {
		err = s.Start(ctx, settings...)
	}
	if err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) make(ctx context.Context) error {
	if err := os.Chown(s.dir, s.account.uid, s.account.gid); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "password")
	if err := os.WriteFile(file, []byte(s.Password), 0o444); err != nil {
		return err
	}
	output, err := s.command(ctx, "initdb", "--pgdata="+s.data(), "--username="+s.Superuser, "--pwfile="+file,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("running initdb: %w: %s", err, output)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return s.account.command(ctx, []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"},
		append([]string{filepath.Join(s.programs.Dir, program)}, args...))
}

// Start starts the server, and returns when it accepts connections.
func (s *Server) Start(ctx context.Context, settings ...string) error {
	args := []string{"-D", s.data(), "-p", s.Port}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=" + s.dir, "fsync=off", "full_page_writes=off",
		"log_statement=all", "log_min_error_statement=debug5", "log_min_messages=info", "max_connections=300",
	}, settings...) {
		args = append(args, "-c", setting)
	}
	s.running = s.command(context.Background(), "postgres", args...)
	s.running.Stdout, s.running.Stderr = &s.log, &s.log
	s.running.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := s.running.Start(); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startPatience, true,
		func(ctx context.Context) (bool, error) {
			conn, err := s.Connect(ctx, "postgres")
			if err != nil {
				return false, nil
			}
			return true, conn.Close(ctx)
		})
	if err != nil {
		return fmt.Errorf("waiting for the server to accept connections: %w; its log:\n%s", err, s.Log())
	}
	return nil
}

// SetAuthentication sets the authentication method in pg_hba.conf. The server uses the method after its next start.
func (s *Server) SetAuthentication(method string) error {
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte("host all all all "+method+"\n"), 0o600)
}

// Write writes a file that only the server may read, outside of its data directory. It returns the path.
func (s *Server) Write(name string, data []byte) (path string, err error) {
	path = filepath.Join(s.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", err
	}
	return path, os.Chown(path, s.account.uid, s.account.gid)
}

// Address returns the host and port on which the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", s.Port) }

// Connect connects as the superuser.
func (s *Server) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable host=127.0.0.1 password=" + s.Password + " port=" + s.Port)
	if err != nil {
		return nil, err
	}
	config.User, config.Database = s.Superuser, database
	return pgx.ConnectConfig(ctx, config)
}

// Log returns the server's log so far.
func (s *Server) Log() string { return s.log.String() }

// Freeze pauses the main process of the server until Thaw. The kernel still accepts new connections, but no process
// responds to them.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw resumes the main process of a paused server.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) error {
	return syscall.Kill(s.running.Process.Pid, signal)
}

// Stop ends the server with a fast shutdown, which closes all connections.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	_ = s.signal(syscall.SIGINT) // a fast shutdown
	_ = s.running.Wait()         // the exit code does not matter
	s.running = nil
}

// Remove stops the server and removes its files.
func (s *Server) Remove() {
	s.Stop()
	_ = os.RemoveAll(s.dir)
}
