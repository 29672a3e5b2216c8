//go:build integration

package database

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/test/postgres"
)

// logEverything makes the server log each statement in all ways: before it runs, with its parse trees, with its
// duration, and again with each message that it causes. It also sets password_encryption to md5, which the script must
// override.
func logEverything(db *v1alpha1.Database) {
	db.Spec.Parameters = map[string]v1alpha1.ParameterValue{
		"log_statement": "all", "log_min_duration_statement": "0", "log_min_error_statement": "debug5",
		"log_min_messages": "debug5",
		"log_connections":  "on", "debug_print_parse": "on", "password_encryption": "md5",
	}
}

// Places in which passwords are searched for, besides files.
const (
	watchedProcesses  = "the command lines and environments that were seen"
	recordedProcesses = "the command lines and environments that were recorded"
	containerLog      = "the log of the container"
)

// forms returns the texts that reveal a password: its first and last characters, and its beginning in base64 and in
// hex.
func forms(password string) []string {
	return []string{
		password[:12], password[len(password)-12:], base64.StdEncoding.EncodeToString([]byte(password[:9])),
		hex.EncodeToString([]byte(password[:8])),
	}
}

// find returns the forms of passwords that the places contain, for each place that has any.
func find(places map[string]string, passwords []string) map[string][]string {
	revealing := map[string]bool{}
	for _, password := range passwords {
		for _, form := range forms(password) {
			revealing[form] = true
		}
	}
	found := map[string][]string{}
	for place, text := range places {
		for form := range revealing {
			if strings.Contains(text, form) {
				found[place] = append(found[place], form)
			}
		}
	}
	return found
}

// placesOf returns what the Pod leaves after its container has ended: what its processes show, its log, and the files
// of its volumes. It leaves out the mounted Secret, and the passwords and the key in the script's copy of the Secret,
// which is in memory.
func placesOf(t *testing.T, s *liveServer) map[string]string {
	t.Helper()
	places := map[string]string{
		watchedProcesses: s.running.Seen(), recordedProcesses: s.pod.Recorded(t), containerLog: s.running.Log(),
		"the termination message": s.pod.TerminationMessage(),
	}
	secret := filepath.Join(s.pod.Path(sharedVolume), "windlass", "settings")
	for _, volume := range []string{dataVolume, runVolume, sharedVolume} {
		err := filepath.WalkDir(s.pod.Path(volume), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || filepath.Dir(path) == secret &&
				(strings.HasSuffix(path, passwordSuffix) || filepath.Base(path) == corev1.TLSPrivateKeyKey) {
				return err
			}
			text, err := os.ReadFile(path)
			places[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return places
}

// canaryDatabase is a Database with canaries as passwords, whose processes are recorded.
type canaryDatabase struct {
	*liveDatabase
	// passwords are all passwords of the test, including passwords with which a client could not log in.
	passwords []string
	// conditions are all conditions that the Database had.
	conditions map[string]bool
}

func newCanaryDatabase(t *testing.T) *canaryDatabase {
	t.Helper()
	c := &canaryDatabase{conditions: map[string]bool{}}
	c.liveDatabase = newLiveDatabase(t, func(d *liveDatabase) {
		logEverything(d.db)
		d.liveServer.pod.Record(t)
		d.beforeReconcile = func() {
			for _, line := range controllertest.Conditions(d.Object()) {
				c.conditions[line] = true
			}
		}
	})
	c.passwords = []string{c.password()}
	return c
}

// password returns the password in the connection Secret.
func (c *canaryDatabase) password() string {
	return string(c.fixture.secret().Data[credentials.KeyPassword])
}

// loginFails logs in with a username and a password, and returns the error, or "" if the login succeeds.
func (c *canaryDatabase) loginFails(t *testing.T, username, password string) string {
	t.Helper()
	conn, err := c.connect(t.Context(), username, password, "app")
	if err != nil {
		return err.Error()
	}
	_ = conn.Close(context.Background())
	return ""
}

// untilAccepted waits until the server accepts the login in the connection Secret.
func (c *canaryDatabase) untilAccepted(t *testing.T) {
	t.Helper()
	c.until(t, "the server to accept the login in the Secret", func() bool {
		secret := c.fixture.secret()
		return c.loginFails(t, string(secret.Data[credentials.KeyUsername]),
			string(secret.Data[credentials.KeyPassword])) == ""
	})
	c.passwords = append(c.passwords, c.password())
}

// setPassword changes the password in the connection Secret, as a user does.
func (c *canaryDatabase) setPassword(password string) {
	c.passwords = append(c.passwords, strings.TrimSpace(password))
	c.changeSecret(func(s *corev1.Secret) { s.Data[credentials.KeyPassword] = []byte(password) })
}

// rotateLogin requests a rotation, and waits until the server rejects the previous login.
func (c *canaryDatabase) rotateLogin(t *testing.T, n int) {
	t.Helper()
	previous := c.fixture.secret()
	username, password := string(previous.Data[credentials.KeyUsername]), string(previous.Data[credentials.KeyPassword])
	c.Change(func(db *v1alpha1.Database) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, credentials.RotateAnnotation, strconv.Itoa(n))
	})
	c.until(t, "the Secret to have another login", func() bool {
		return string(c.fixture.secret().Data[credentials.KeyUsername]) != username
	})
	c.Clock.Step(credentials.DefaultGracePeriod + time.Second)
	c.until(t, "the server to reject the previous login", func() bool {
		why := c.loginFails(t, username, password)
		return strings.Contains(why, "28000") || strings.Contains(why, "28P01")
	})
	c.untilAccepted(t)
}

// mountWith mounts settings that the operator would not write, and waits until the log contains want. The next change
// of the operator replaces these settings.
func (c *canaryDatabase) mountWith(t *testing.T, data map[string]string, want string) {
	t.Helper()
	settings := c.fixture.settings()
	settings.Data[keyRevision] = []byte(newRevision())
	for key, value := range data {
		settings.Data[key] = []byte(value)
	}
	c.liveServer.pod.Mount(t, settingsVolume, settings.Data)
	c.untilLogged(t, want)
}

func (c *canaryDatabase) untilLogged(t *testing.T, want string) {
	t.Helper()
	c.until(t, "the log to contain "+strconv.Quote(want), func() bool { return strings.Contains(c.running.Log(), want) })
}

// placesOfOperator returns what the operator has written, except the data of Secrets.
func (c *canaryDatabase) placesOfOperator(t *testing.T) map[string]string {
	t.Helper()
	objects := map[string]any{
		"the Database": c.Object(), "the StatefulSet": c.statefulSet(), "the claim": c.claim(),
		"the metadata of the connection Secret": c.fixture.secret().ObjectMeta,
		"the Service":                           kindtest.Get[*corev1.Service](c.Cluster, "default", "shop"),
		"the Pod":                               kindtest.Get[*corev1.Pod](c.Cluster, "default", "shop-0"),
		"the metadata of the settings Secret":   c.fixture.settings().ObjectMeta,
	}
	places := map[string]string{
		"the log of the operator": c.output.String(), "the Events": strings.Join(c.Events.Events(), "\n"),
		"the requests":   strings.Join(c.Journal.Writes(), "\n"),
		"all conditions": strings.Join(slices.Sorted(maps.Keys(c.conditions)), "\n"),
	}
	for name, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		places[name] = string(text)
	}
	return places
}

// wantTexts fails the test unless the place contains all texts. The texts show that the search covers the place.
func wantTexts(t *testing.T, places map[string]string, place string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(places[place], text) {
			t.Errorf("the search does not cover what it should: %s has no %q", place, text)
		}
	}
}

func TestPasswordsAppearOnlyInSecrets(t *testing.T) {
	t.Parallel()
	c := newCanaryDatabase(t)
	edits := map[bool][]string{
		false: {
			"canary-that-a-user-has-set-5e1f", `canary-that-is-odd-' '' " \ \' $PATH $(PGDATA) %s %d %n ; -- $1 ${HOME} ä-9c2d`,
		},
		true: {"canary-after-a-rotation-03aa", "canary-that-is-long-" + strings.Repeat("0123456789", 9000) + "-77be"},
	}
	for n, rotated := range []bool{false, true} {
		if rotated {
			c.rotateLogin(t, n)
		}
		for _, password := range edits[rotated] {
			c.setPassword(password)
			c.untilAccepted(t)
		}
	}
	c.rotateLogin(t, 2)
	c.passwords = append(c.passwords, "canary-that-is-wrong-4b1d")
	why := c.loginFails(t, string(c.fixture.secret().Data[credentials.KeyUsername]), "canary-that-is-wrong-4b1d")
	if !strings.Contains(why, "28P01") {
		t.Errorf("with a wrong password, a login says %q", why)
	}

	// The operator passes neither a password with a control character nor this attribute on to the script.
	good := c.password()
	c.setPassword("canary-with-a-line-break-e0c3\n")
	c.until(t, "the operator to reject the password", func() bool { return c.reason() == "InvalidPassword" })
	key := "alternate2" + passwordSuffix
	c.mountWith(t, map[string]string{key: "canary-with-a-line-break-e0c3\n"}, "has a control character")
	c.mountWith(t, map[string]string{key: "canary-that-fails-with-an-attribute-11d4", keyAttributes: "NOSUCHATTRIBUTE"},
		`unrecognized role option "nosuchattribute"`)
	c.passwords = append(c.passwords, "canary-that-fails-with-an-attribute-11d4")
	c.setPassword(good)
	c.Change(func(db *v1alpha1.Database) { db.Spec.Owner = "pg_canary" })
	c.untilLogged(t, `role name "pg_canary" is reserved`)
	c.Change(func(db *v1alpha1.Database) {
		db.Spec.Owner, db.Spec.Parameters["max_connections"] = "app", "31"
	})
	c.untilLogged(t, "Restarting PostgreSQL")
	c.untilAccepted(t)

	for _, secret := range []*corev1.Secret{c.fixture.settings(), c.certificate()} {
		for _, key := range []string{corev1.TLSPrivateKeyKey, certificates.KeyAuthority} {
			if lines := strings.Split(string(secret.Data[key]), "\n"); len(lines) > 2 {
				c.passwords = append(c.passwords, lines[2]) // the first line of a key begins like that of other keys
			}
		}
	}
	c.running.Stop(t)
	places := placesOf(t, c.liveServer)
	maps.Copy(places, c.placesOfOperator(t))
	for _, place := range []string{watchedProcesses, recordedProcesses} {
		wantTexts(t, places, place, `--command=\password`, "PGOPTIONS=", "pg_isready")
	}
	wantTexts(t, places, watchedProcesses, "postgres: checkpointer")
	wantTexts(t, places, containerLog, "statement: ALTER USER", "STATEMENT:  ALTER USER",
		"PASSWORD 'SCRAM-SHA-256$4096:", "password authentication failed for user")
	wantTexts(t, places, filepath.Join(c.liveServer.pod.Path(dataVolume), "pgdata", "windlass.conf"), "debug_print_parse")
	wantTexts(t, places, "the log of the operator", "Failed to reconcile", "a line break or another control character")
	wantTexts(t, places, "the Events", "CredentialsRotated")
	wantTexts(t, places, "all conditions", "InvalidPassword")
	if strings.Contains(places[containerLog], "PASSWORD 'md5") {
		t.Error("the server has got an MD5 hash of a password")
	}
	t.Logf("searched for %d passwords in %d places; the log has %d bytes", len(c.passwords), len(places),
		len(places[containerLog]))
	for place, found := range find(places, c.passwords) {
		t.Errorf("%s contains a password, as %q", place, found)
	}
}

// leaks are commands that reveal the password in each way that the search covers. The text after the password
// identifies the way.
const leaks = `
  LEAK="$password-longenv" sleep infinity &
  sh -c 'sleep infinity; :' "$password-longarg" &
  LEAK="$password-runenv-" pg_isready >/dev/null || true
  ask postgres --set=leak="$password-runarg-" --command='SELECT 1' >/dev/null
  ask postgres --set=leak="$password-stated-" >/dev/null <<'SQL'
SELECT :'leak';
SQL
  ask postgres --set=leak="$password-stored-" >/dev/null <<'SQL'
CREATE TABLE public.leak AS SELECT :'leak' AS leak;
SQL
  echo "$password-output-"
  printf %s "$password-infile-" >"$PGDATA/windlass.leak"
`

// TestSearchFindsPasswords runs a script that leaks the password.
func TestSearchFindsPasswords(t *testing.T) {
	t.Parallel()
	const password = "canary-for-the-search-62f0"
	s := &liveServer{db: example(logEverything), pod: postgres.NewPod(t)}
	s.issue(t)
	s.pod.Record(t)
	s.setPassword(password)
	s.mount(t)
	leaking, before := s.container(), "  case $password in\n"
	if strings.Count(leaking.Command[scriptIndex], before) != 1 {
		t.Fatalf("the script has no single line %q", before)
	}
	leaking.Command[scriptIndex] = strings.Replace(leaking.Command[scriptIndex], before, leaks+before, 1)
	s.running = s.pod.Start(t, leaking)
	s.awaitReady(t)
	s.running.Stop(t)

	places, file := placesOf(t, s), filepath.Join(s.pod.Path(dataVolume), "pgdata", "windlass.leak")
	for _, c := range []struct{ place, way string }{
		{watchedProcesses, "-longenv"}, {watchedProcesses, "-longarg"}, {
			recordedProcesses, "-runenv-",
		}, {recordedProcesses, "-runarg-"},
		{containerLog, "-stated-"}, {containerLog, "-output-"}, {file, "-infile-"},
	} {
		if form := forms(password + c.way)[1]; !slices.Contains(find(places, []string{password + c.way})[c.place], form) {
			t.Errorf("the search does not find %q in %s", form, c.place)
		}
	}
	stored := forms(password + "-stored-")[1]
	if !slices.ContainsFunc(slices.Collect(maps.Keys(places)), func(place string) bool {
		return strings.Contains(place, "/pgdata/base/") && strings.Contains(places[place], stored)
	}) {
		t.Error("the search does not find a password in a table")
	}
}
