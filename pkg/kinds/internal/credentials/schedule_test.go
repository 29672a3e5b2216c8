package credentials_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

var (
	now     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	created = now.Add(-100 * time.Hour)
)

func TestLoginInSecret(t *testing.T) {
	for name, c := range map[string]struct{ secret, recorded, want string }{
		"the owner":                            {secret: "clerk", recorded: "clerk-login1", want: "clerk"},
		"the alternate login":                  {secret: "clerk-login1", want: "clerk-login1"},
		"the recorded one, not another name":   {secret: "postgres", recorded: "clerk-login1", want: "clerk-login1"},
		"the owner, if nothing valid is known": {secret: "postgres", recorded: "root", want: "clerk"},
		"the owner at first":                   {want: "clerk"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{Data: map[string][]byte{"username": []byte(c.secret)}}
			controllertest.Equal(t, "login", c.want, credentials.LoginIn(s, "clerk", c.recorded))
		})
	}
	controllertest.Equal(t, "login without a Secret", "clerk-login1", credentials.LoginIn(nil, "clerk", "clerk-login1"))
	forged := &v1alpha1.CredentialsStatus{Username: "postgres"}
	controllertest.Equal(t, "login of a status with another name", "clerk", credentials.Recorded("clerk", forged))
}

func TestScheduleOf(t *testing.T) {
	controllertest.Equal(t, "the defaults", credentials.Schedule{
		Grace: 10 * time.Minute,
	}, credentials.ScheduleOf(&v1alpha1.Database{}))
	long := strings.Repeat("x", 200_000)
	meta := metav1.ObjectMeta{Annotations: map[string]string{credentials.RotateAnnotation: long}}
	spec := &v1alpha1.CredentialsSpec{RotateEvery: &metav1.Duration{Duration: time.Hour}, GracePeriod: &metav1.Duration{}}
	got := credentials.ScheduleOf(&v1alpha1.Database{ObjectMeta: meta, Spec: v1alpha1.DatabaseSpec{Credentials: spec}})
	controllertest.Equal(t, "all fields", credentials.Schedule{Every: time.Hour, Request: credentials.Request(long)}, got)
	controllertest.Equal(t, "all fields of an ExternalDatabase", got, credentials.ScheduleOf(
		&v1alpha1.ExternalDatabase{ObjectMeta: meta, Spec: v1alpha1.ExternalDatabaseSpec{Credentials: spec}}))
	if len(got.Request) > 80 || got.Request == credentials.Request(long+"x") {
		t.Errorf("the request is recorded as %q", got.Request)
	}
	controllertest.Equal(t, "a request that is a digest", false, credentials.Request(got.Request) == got.Request)
}

// secretOf returns a connection Secret with annotations.
func secretOf(annotations map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created), Annotations: annotations},
	}
}

func TestRecordOf(t *testing.T) {
	ago, soon := now.Add(-time.Hour), now.Add(time.Minute)
	for name, c := range map[string]struct {
		at   string
		want time.Time
	}{
		"never rotated":                      {},
		"rotated":                            {at: ago.Format(time.RFC3339), want: ago},
		"a clock that was set back a little": {at: soon.Format(time.RFC3339), want: soon},
		"a time far in the future is now":    {at: now.Add(2 * time.Hour).Format(time.RFC3339), want: now},
		"a forged time is now":               {at: "9999-12-31T23:59:59Z", want: now},
		"a text that is no time is now":      {at: "yesterday", want: now},
	} {
		t.Run(name, func(t *testing.T) {
			got := credentials.RecordOf(secretOf(map[string]string{
				credentials.RotatedAtAnnotation: c.at, credentials.RotateAnnotation: "1",
			}), now)
			controllertest.Equal(t, "record", credentials.Record{Created: created, Rotated: c.want, Request: "1"}, got)
		})
	}
}

func TestRotationIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		schedule credentials.Schedule
		record   credentials.Record
		want     bool
	}{
		"never without a schedule":             {},
		"after rotateEvery since the creation": {schedule: credentials.Schedule{Every: 100 * time.Hour}, want: true},
		"not before":                           {schedule: credentials.Schedule{Every: 101 * time.Hour}},
		"after rotateEvery since the last": {
			schedule: credentials.Schedule{Every: time.Hour}, record: credentials.Record{Rotated: now.Add(-time.Hour)},
			want: true,
		},
		"not before, although the Secret is older": {
			schedule: credentials.Schedule{Every: 2 * time.Hour}, record: credentials.Record{Rotated: now.Add(-time.Hour)},
		},
		"not while the clock is behind the last": {
			schedule: credentials.Schedule{Every: time.Hour}, record: credentials.Record{Rotated: now.Add(time.Minute)},
		},
		"for a new request": {
			schedule: credentials.Schedule{Request: "2"}, record: credentials.Record{Request: "1"}, want: true,
		},
		"not for the same request": {
			schedule: credentials.Schedule{Request: "2"}, record: credentials.Record{Request: "2"},
		},
		"not for a request that was withdrawn": {record: credentials.Record{Request: "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.record.Created = created
			controllertest.Equal(t, "due", c.want, c.schedule.Due(c.record, now))
		})
	}
}

func TestKeepLoginOfExistingSecret(t *testing.T) {
	build := func(login, password string, annotations map[string]string) *corev1.Secret {
		return credentials.Secret(metav1.ObjectMeta{Name: "shop", Annotations: annotations}, postgresql.Settings{
			Username: login, Password: password, Host: "db", Port: 5432, Database: "shop", Mode: postgresql.Disable,
		})
	}
	record := map[string]string{credentials.RotatedAtAnnotation: "2026-03-01T12:00:00Z", credentials.RotateAnnotation: "1"}
	long := strings.Repeat("x", 100_000)
	and := func(s *corev1.Secret, key string) *corev1.Secret {
		s.Data[key] = []byte("theirs")
		return s
	}
	for name, c := range map[string]struct {
		live, want *corev1.Secret
	}{
		"login, password and record stay": {
			live: build("clerk-login1", "theirs", record), want: build("clerk-login1", "theirs", record),
		},
		"a key of another client stays": {
			live: and(build("clerk", "theirs", record), "jdbc-url"), want: and(build("clerk", "theirs", record), "jdbc-url"),
		},
		"a ca that is no longer desired is removed": {
			live: and(build("clerk", "theirs", record), credentials.KeyCA), want: build("clerk", "theirs", record),
		},
		"an edited login is replaced": {live: build("postgres", "theirs", record), want: build("clerk", "theirs", record)},
		"a Secret that was never rotated has no record": {
			live: build("clerk", "theirs", nil), want: build("clerk", "theirs", map[string]string{}),
		},
		"a missing password is generated": {
			live: build("clerk-login1", "", record), want: build("clerk-login1", "generated", record),
		},
		"a long request is shortened": {
			live: build("clerk", "theirs", map[string]string{credentials.RotateAnnotation: long}),
			want: build("clerk", "theirs", map[string]string{credentials.RotateAnnotation: credentials.Request(long)}),
		},
		"a digest stays": {
			live: build("clerk", "theirs", map[string]string{credentials.RotateAnnotation: credentials.Request(long)}),
			want: build("clerk", "theirs", map[string]string{credentials.RotateAnnotation: credentials.Request(long)}),
		},
		"a time that cannot be parsed becomes now": {
			live: build("clerk", "theirs", map[string]string{credentials.RotatedAtAnnotation: "soon"}),
			want: build("clerk", "theirs", map[string]string{credentials.RotatedAtAnnotation: "2026-03-01T12:00:00Z"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := build("clerk", "generated", map[string]string{credentials.RotateAnnotation: "2"})
			credentials.Keep("clerk", now)(got, c.live)
			controllertest.Equal(t, "data", texts(c.want), texts(got))
			controllertest.Equal(t, "annotations", c.want.Annotations, got.Annotations)
		})
	}
}

// texts returns the data of a Secret as texts.
func texts(s *corev1.Secret) map[string]string {
	all := map[string]string{}
	for key, value := range s.Data {
		all[key] = string(value)
	}
	return all
}

func TestLoginsTakeTurns(t *testing.T) {
	long := strings.Repeat("ä", 31) // 62 bytes
	for owner, want := range map[string][]string{
		"app": {"app-login1", "app-login2", "app-login1"},
		// a name that an alternate login of a shorter owner would have
		strings.Repeat("x", 56) + "-login1": {
			strings.Repeat("x", 55) + "-login1", strings.Repeat("x", 56) + "-login2", strings.Repeat("x", 55) + "-login1",
		},
		long: {strings.Repeat("ä", 28) + "-login1", strings.Repeat("ä", 28) + "-login2", strings.Repeat("ä", 28) + "-login1"},
	} {
		login, got := owner, []string(nil)
		for range want {
			login = credentials.Next(owner, login)
			got = append(got, login)
		}
		controllertest.Equal(t, "logins of "+owner, want, got)
	}
}
