//go:build integration

package database

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

const mebibyte = 1 << 20

// newServerOnVolume returns a running server on a volume of the given size, and the machine of the server.
func newServerOnVolume(t *testing.T, size int64) (*liveServer, *postgres.Machine) {
	t.Helper()
	s := newServer(t)
	machine := s.pod.OnMachine(t, dataVolume)
	machine.Limit(t, size)
	s.launch(t)
	s.awaitReady(t)
	exec(t, s.login(t), "create table filler (id bigint, content text)")
	return s, machine
}

func exec(t *testing.T, connection *pgx.Conn, sql string) {
	t.Helper()
	if _, err := connection.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// fill inserts rows until the server rejects one, and returns the number of rows that it has stored.
func (s *liveServer) fill(t *testing.T) (rows int64) {
	t.Helper()
	connection := s.login(t)
	for {
		done, err := connection.Exec(t.Context(), "insert into filler select i, repeat(md5(i::text), 30) from "+
			"generate_series(1, 1000) i")
		if err != nil {
			t.Logf("after %d rows: %v", rows, err)
			return rows
		}
		rows += done.RowsAffected()
	}
}

// awaitUsage waits until the server says how full the volume is. The server may crash and start again meanwhile.
func (s *liveServer) awaitUsage(t *testing.T, percent string) {
	t.Helper()
	framework.Eventually(t, "the volume to be "+percent+" % full", func(ctx context.Context) (bool, error) {
		select {
		case <-s.running.Ended(): // the kubelet starts the container again
			s.launch(t)
		default:
		}
		connection, err := s.connect(ctx, "app", string(s.secret.Data["password"]), "app")
		if err != nil {
			return false, nil
		}
		defer connection.Close(ctx)
		var usage string
		err = connection.QueryRow(ctx, "show windlass.volume").Scan(&usage)
		return err == nil && strings.HasPrefix(usage, percent+" "), nil
	})
}

func TestServerSaysHowFullItsVolumeIs(t *testing.T) {
	t.Parallel()
	s, machine := newServerOnVolume(t, 2000*mebibyte)
	if got := s.ask(t, "show windlass.volume"); got != "0 2048000" {
		t.Errorf("the server says %q, want 0 percent of 2048000 KiB", got)
	}
	// A sparse file fills the volume: Machine counts the sizes of files.
	large, err := os.Create(filepath.Join(s.pod.Path(dataVolume), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if err := large.Truncate(1000 * mebibyte); err != nil {
		t.Fatal(err)
	}
	started := s.ask(t, startTime)
	for _, volume := range []struct {
		percent string
		size    int64 // in percent of what is used
	}{{"80", 118}, {"90", 108}} {
		machine.Limit(t, machine.Used(t)/100*volume.size)
		s.awaitUsage(t, volume.percent)
	}
	machine.Limit(t, 2000*mebibyte)
	s.awaitUsage(t, "0")
	s.wants(t, startTime, started)
}

// TestFullVolumeAcceptsReadsUntilThereIsSpace fills a volume, and then makes space in two ways.
func TestFullVolumeAcceptsReadsUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	for name, makeSpace := range map[string]func(*testing.T, *liveServer, *postgres.Machine){
		"the volume grows": func(t *testing.T, _ *liveServer, machine *postgres.Machine) {
			t.Helper()
			machine.Limit(t, 800*mebibyte)
		},
		"a user truncates a table": func(t *testing.T, s *liveServer, _ *postgres.Machine) {
			t.Helper()
			connection := s.login(t)
			exec(t, connection, "set default_transaction_read_only = off")
			exec(t, connection, "truncate filler")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, machine := newServerOnVolume(t, 400*mebibyte)
			rows := s.fill(t)
			s.awaitUsage(t, "100")
			s.wants(t, "select count(*) from filler", strconv.FormatInt(rows, 10))
			s.wants(t, "show transaction_read_only", "on")
			makeSpace(t, s, machine)
			s.awaitUsage(t, "0")
			exec(t, s.login(t), "insert into filler values (0, '')")
		})
	}
}

// TestServerStartsAfterCrashOnFullVolume kills the server on a full volume, and leaves no space but the reserve.
func TestServerStartsAfterCrashOnFullVolume(t *testing.T) {
	t.Parallel()
	s, machine := newServerOnVolume(t, 400*mebibyte)
	rows := s.fill(t)
	reserve, err := os.Stat(filepath.Join(s.pod.Path(dataVolume), "windlass.reserve"))
	if err != nil || reserve.Size() == 0 {
		t.Fatalf("the reserve was released while PostgreSQL ran: %v", err)
	}
	s.running.Kill()
	machine.Limit(t, machine.Used(t))
	for range 2 { // the container starts again while it uses the reserve
		s.launch(t)
		s.awaitUsage(t, "100")
		s.wants(t, "show transaction_read_only", "on")
		s.running.Kill()
	}
	s.launch(t)
	s.awaitUsage(t, "100")
	s.wants(t, "select count(*) from filler", strconv.FormatInt(rows, 10))
	machine.Limit(t, 800*mebibyte)
	s.awaitUsage(t, "0")
	s.wants(t, "select count(*) from filler", strconv.FormatInt(rows, 10))
}

// TestContainerSaysThatVolumeIsFull starts PostgreSQL without the reserve.
func TestContainerSaysThatVolumeIsFull(t *testing.T) {
	t.Parallel()
	s, machine := newServerOnVolume(t, 400*mebibyte)
	s.running.Stop(t)
	if err := os.Truncate(filepath.Join(s.pod.Path(dataVolume), "windlass.reserve"), 0); err != nil {
		t.Fatal(err)
	}
	machine.Limit(t, machine.Used(t))
	s.launch(t)
	select {
	case <-s.running.Ended():
	case <-time.After(framework.Patience):
		t.Fatal("the container still runs")
	}
	if found := fullMessage.FindString(s.pod.TerminationMessage()); found == "" {
		t.Errorf("the container ended with the message %q", s.pod.TerminationMessage())
	}
	machine.Limit(t, 800*mebibyte)
	s.launch(t)
	s.awaitReady(t)
	s.wants(t, "select count(*) from filler", "0")
}
