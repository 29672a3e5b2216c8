//go:build integration

package database

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// liveServer is the container of a Database, which runs on this machine.
type liveServer struct {
	db       *v1alpha1.Database
	issued   certificates.Content
	secret   *corev1.Secret // the connection Secret
	logins   logins
	settings *corev1.Secret
	backup   *corev1.Secret // the Secret of the backup, or nil
	pod      *postgres.Pod
	running  *postgres.Container
}

func newLiveServer(t *testing.T, changes ...func(*v1alpha1.Database)) *liveServer {
	t.Helper()
	s := newServer(t, changes...)
	s.launch(t)
	s.awaitReady(t)
	return s
}

// newServer returns a server that does not run yet.
func newServer(t *testing.T, changes ...func(*v1alpha1.Database)) *liveServer {
	t.Helper()
	s := &liveServer{db: example(changes...), pod: postgres.NewPod(t)}
	s.issue(t)
	s.setPassword("canary-of-the-first-password")
	s.mount(t)
	return s
}

// issue issues a certificate with a new key.
func (s *liveServer) issue(t *testing.T) {
	t.Helper()
	s.issued.Serving = nil
	var err error
	s.issued, err = s.issued.Renew(certificates.Options{Name: "database", Hosts: hostsOf(s.db)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
}

// encryption returns what the server and its clients need for TLS.
func (s *liveServer) encryption() encryption {
	if !hasTLS(s.db) {
		return encryption{}
	}
	return encryptionOf(s.issued.Data())
}

// setPassword gives the owner a password, without a rotation.
func (s *liveServer) setPassword(password string) {
	current := login{s.db.Spec.Owner, loginPassword, password}
	s.secret = desiredSecret(s.db, s.encryption(), current, credentials.Record{})
	s.logins = logins{current, login{name: credentials.Next(current.name, current.name), state: loginNone}}
}

// mount writes the settings of the Database to the volume, as the operator and the kubelet do.
func (s *liveServer) mount(t *testing.T) {
	t.Helper()
	next := desiredSettings(s.db, s.encryption(), s.logins, s.backup, time.Now())
	if s.settings != nil {
		keepRevision(next, s.settings)
	}
	s.settings = next
	s.pod.Mount(t, settingsVolume, next.Data)
}

func (s *liveServer) container() corev1.Container { return desiredContainer(s.db, DefaultImage) }

func (s *liveServer) launch(t *testing.T) {
	t.Helper()
	s.running = s.pod.Start(t, s.container())
}

func (s *liveServer) awaitReady(t *testing.T) {
	t.Helper()
	s.eventually(t, "PostgreSQL to be ready", func() bool {
		return s.running.Probe(t.Context(), s.container().ReadinessProbe) == nil
	})
}

// eventually waits until holds returns true. It fails the test if the container ends before.
func (s *liveServer) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	framework.Eventually(t, what, func(context.Context) (bool, error) {
		select {
		case <-s.running.Ended():
			return false, fmt.Errorf("the container ended: %s; its log:\n%s", s.pod.TerminationMessage(), s.running.Log())
		default:
			return holds(), nil
		}
	})
}

// change changes the Database, and waits until the server has the settings.
func (s *liveServer) change(t *testing.T, change func(*v1alpha1.DatabaseSpec)) {
	t.Helper()
	change(&s.db.Spec)
	s.mount(t)
	s.awaitSettings(t)
}

// awaitSettings waits until the server has loaded the mounted settings. Every later session uses these settings.
func (s *liveServer) awaitSettings(t *testing.T) {
	t.Helper()
	s.eventually(t, "PostgreSQL to have the settings", func() bool {
		text, err := os.ReadFile(filepath.Join(s.pod.Path(sharedVolume), "windlass", "applied"))
		return err == nil && string(text) == revisionOf(s.settings)
	})
	s.awaitReady(t)
	s.wants(t, "select current_setting('windlass.revision')", revisionOf(s.settings))
}

// connect logs in through TCP. It verifies the server if the connection Secret has a CA.
func (s *liveServer) connect(ctx context.Context, username, password, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("host=127.0.0.1 sslmode=disable port=" + s.pod.Port)
	if err != nil {
		return nil, err
	}
	if authorities := s.secret.Data[credentials.KeyCA]; len(authorities) > 0 {
		config.TLSConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: hostOf(s.db)}
		config.TLSConfig.RootCAs.AppendCertsFromPEM(authorities)
	}
	config.User, config.Password, config.Database = username, password, database
	return pgx.ConnectConfig(ctx, config)
}

// superuser logs in through the socket, as the script does.
func (s *liveServer) superuser(t *testing.T) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres",
		s.pod.Path(runVolume), s.pod.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(context.Background()) })
	return connection
}

// login logs in with the connection Secret.
func (s *liveServer) login(t *testing.T) *pgx.Conn {
	t.Helper()
	connection, err := s.connect(t.Context(), string(s.secret.Data[credentials.KeyUsername]),
		string(s.secret.Data[credentials.KeyPassword]), s.db.Spec.DatabaseName)
	if err != nil {
		t.Fatalf("logging in: %v; the log:\n%s", err, s.running.Log())
	}
	t.Cleanup(func() { _ = connection.Close(context.Background()) })
	return connection
}

// wants fails the test unless a query, in a new session of the owner, returns want.
func (s *liveServer) wants(t *testing.T, sql, want string) {
	t.Helper()
	if got := s.ask(t, sql); got != want {
		t.Errorf("%s returns %q, want %q", sql, got, want)
	}
}

func (s *liveServer) ask(t *testing.T, sql string) string {
	t.Helper()
	connection := s.login(t)
	defer connection.Close(context.Background())
	return askIn(t, connection, sql)
}

func askIn(t *testing.T, connection *pgx.Conn, sql string) string {
	t.Helper()
	var value any
	if err := connection.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return fmt.Sprint(value)
}

const startTime = "select pg_postmaster_start_time()::text"

// setting returns a change that sets parameters, and keeps the others.
func setting(parameters map[string]v1alpha1.ParameterValue) func(*v1alpha1.DatabaseSpec) {
	return func(spec *v1alpha1.DatabaseSpec) {
		if spec.Parameters == nil {
			spec.Parameters = map[string]v1alpha1.ParameterValue{}
		}
		maps.Copy(spec.Parameters, parameters)
	}
}

func TestSettingsAreAppliedWithoutRestart(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	previous := s.secret
	session, started := s.login(t), s.ask(t, startTime)
	odd := v1alpha1.ParameterValue(`it's \ "odd" $(PGDATA) # ä = `)
	s.change(t, setting(map[string]v1alpha1.ParameterValue{
		"work_mem": "9MB", "log_line_prefix": odd, "log_statement": "all", "my.own": "1",
	}))
	if got := s.ask(t, "select current_setting('work_mem') || current_setting('log_line_prefix') || "+
		"current_setting('my.own')"); got != "9MB"+string(odd)+"1" {
		t.Errorf("the parameters are %q", got)
	}
	s.change(t, func(spec *v1alpha1.DatabaseSpec) { delete(spec.Parameters, "work_mem") })
	s.wants(t, "show work_mem", "4MB")

	s.setPassword("canary-of-the-second-password ' \" \\ $(PGDATA)")
	s.change(t, func(spec *v1alpha1.DatabaseSpec) {
		spec.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB}
	})
	s.wants(t, "select rolcreatedb::text from pg_roles where rolname = current_user", "true")
	if _, err := s.connect(t.Context(), "app", string(previous.Data[credentials.KeyPassword]), "app"); err == nil {
		t.Error("the server accepts the previous password")
	}
	if _, err := s.login(t).Exec(t.Context(), "create table orders as select 1 as id"); err != nil {
		t.Fatal(err)
	}
	if got := askIn(t, session, "select 'still here'"); got != "still here" {
		t.Errorf("the first session says %q", got)
	}
	s.db.Spec.Owner = `we"ird's`
	s.setPassword("canary-of-the-third-password")
	s.change(t, func(*v1alpha1.DatabaseSpec) {})
	s.wants(t, "select tableowner::text from pg_tables where tablename = 'orders'", `we"ird's`)
	s.change(t, func(spec *v1alpha1.DatabaseSpec) { spec.DatabaseName = "archive" })
	s.wants(t, "select current_database()::text", "archive")

	s.wants(t, startTime, started)
	if strings.Contains(s.running.Log(), "canary") {
		t.Error("the log has a password")
	}
}

func TestParameterThatNeedsRestartRestartsOnce(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t)
	before := s.ask(t, startTime)
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"max_connections": "31", "work_mem": "5MB"}))
	s.wants(t, "select current_setting('max_connections') || current_setting('work_mem')", "315MB")
	after := s.ask(t, startTime)
	if after == before {
		t.Error("the server has not restarted")
	}
	if starts := strings.Count(s.running.Log(), "listening on IPv4"); starts != 2 {
		t.Errorf("the server listened %d times, want 2:\n%s", starts, s.running.Log())
	}
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"work_mem": "6MB"}))
	s.wants(t, startTime, after)
	s.change(t, func(spec *v1alpha1.DatabaseSpec) { delete(spec.Parameters, "max_connections") })
	s.wants(t, "show max_connections", "100")
}

func TestManualPolicyWaitsForRestart(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t, func(db *v1alpha1.Database) { db.Spec.UpdatePolicy = v1alpha1.UpdateManual })
	before := s.ask(t, startTime)
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"max_connections": "31", "work_mem": "5MB"}))
	s.wants(t, "select current_setting('max_connections') || current_setting('work_mem')", "1005MB")
	s.wants(t, "select string_agg(name, ' ') from pg_settings where pending_restart", "max_connections")
	s.wants(t, startTime, before)
	s.running.Stop(t)
	s.launch(t)
	s.awaitReady(t)
	s.wants(t, "show max_connections", "31")
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"max_connections": "32"}))
	s.change(t, func(spec *v1alpha1.DatabaseSpec) { spec.UpdatePolicy = v1alpha1.UpdateAutomatic })
	s.wants(t, "show max_connections", "32")
}

func TestRejectedParametersKeepPreviousValues(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t, func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "5MB", "max_connections": "31"}
	})
	started := s.ask(t, startTime)
	s.change(t, setting(map[string]v1alpha1.ParameterValue{
		"work_mem": "nonsense", "max_connections": "-1", "no_such": "1", "maintenance_work_mem": "9MB",
	}))
	problem := s.ask(t, "select current_setting('windlass.problem')")
	for _, want := range []string{
		`invalid value for parameter "work_mem": "nonsense"`, `-1 is outside the valid range for parameter "max_connections"`,
		`unrecognized configuration parameter "no_such"`,
	} {
		if !strings.Contains(problem, want) {
			t.Errorf("the problem is %q, want one with %q", problem, want)
		}
	}
	running := "select current_setting('work_mem') || current_setting('max_connections') || " +
		"current_setting('maintenance_work_mem')"
	s.wants(t, running, "5MB319MB")
	s.wants(t, startTime, started)

	s.running.Kill() // the server must start after a crash
	s.launch(t)
	s.awaitReady(t)
	s.wants(t, running, "5MB319MB")
	s.wants(t, "select current_setting('windlass.problem')", problem)

	s.change(t, func(spec *v1alpha1.DatabaseSpec) {
		spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "7MB", "max_connections": "31"}
	})
	s.wants(t, "select current_setting('work_mem') || current_setting('windlass.problem')", "7MB")
}

// TestServerThatDoesNotStartFallsBack has parameters whose values are valid, but with which PostgreSQL does not start.
func TestServerThatDoesNotStartFallsBack(t *testing.T) {
	t.Parallel()
	s := newLiveServer(t, func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "5MB"}
	})
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"wal_level": "minimal", "max_wal_senders": "10"}))
	s.wants(t, "select current_setting('wal_level') || current_setting('work_mem')", "replica5MB")
	problem := s.ask(t, "select current_setting('windlass.problem')")
	if !strings.Contains(problem, "PostgreSQL does not start with the new parameters, and runs with the previous "+
		"parameters: WAL streaming (max_wal_senders > 0) requires wal_level") {
		t.Errorf("the problem is %q", problem)
	}
	s.change(t, setting(map[string]v1alpha1.ParameterValue{"max_wal_senders": "0"}))
	s.wants(t, "select current_setting('wal_level') || current_setting('windlass.problem')", "minimal")
}

// documentedPsql matches the command of docs/database.md with which users work on a database by hand.
var documentedPsql = regexp.MustCompile("as the owner:\\*\\* `kubectl exec -it shop-0 -- ([^`]*)`")

func TestClientsCanUseTableThatWasCreatedByHand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/database.md")
	documented := documentedPsql.FindStringSubmatch(string(page))
	if err != nil || documented == nil {
		t.Fatalf("docs/database.md has no command: %v", err)
	}
	s := newLiveServer(t)
	byHand := func(sql string) {
		t.Helper()
		command := &corev1.ExecAction{Command: append(strings.Fields(documented[1]), "-c", sql)}
		if err := s.running.Probe(t.Context(), &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: command}}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	byHand("CREATE TABLE before (n int)")
	owner := s.logins.current.name
	next := login{credentials.Next(owner, owner), loginPassword, "canary-of-the-second-password"}
	s.logins = logins{next, login{name: owner, state: loginNone}}
	s.secret = desiredSecret(s.db, s.encryption(), next, credentials.Record{})
	s.mount(t)
	s.awaitSettings(t)
	byHand("CREATE TABLE after_rotation (n int)")
	s.wants(t, "INSERT INTO before VALUES (1) RETURNING n", "1")
	s.wants(t, "INSERT INTO after_rotation VALUES (2) RETURNING n", "2")
}
