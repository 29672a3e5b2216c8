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
}

func TestScheduleOf(t *testing.T) {
	controllertest.Equal(t, "the defaults", credentials.Schedule{
		Grace: 10 * time.Minute,
	}, credentials.ScheduleOf(nil, nil))
	long := strings.Repeat("x", 200_000)
	got := credentials.ScheduleOf(&v1alpha1.CredentialsSpec{
		RotateEvery: &metav1.Duration{Duration: time.Hour}, GracePeriod: &metav1.Duration{},
	}, map[string]string{credentials.RotateAnnotation: long})
	controllertest.Equal(t, "all fields", credentials.Schedule{Every: time.Hour, Request: credentials.Request(long)}, got)
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

func TestNextRotation(t *testing.T) {
	_, ok := credentials.Schedule{}.Next(credentials.Record{Created: created})
	controllertest.Equal(t, "has a time without rotateEvery", false, ok)
	at, _ := credentials.Schedule{Every: time.Hour}.Next(credentials.Record{Created: created})
	controllertest.Equal(t, "the first", created.Add(time.Hour), at)
	at, _ = credentials.Schedule{Every: time.Hour}.Next(credentials.Record{Created: created, Rotated: now})
	controllertest.Equal(t, "the next", now.Add(time.Hour), at)
}

func TestStepOfRotation(t *testing.T) {
	waits := credentials.Schedule{Grace: 10 * time.Minute, Request: "new"}
	for name, c := range map[string]struct {
		rotated time.Time
		former  bool
		users   []string
		request string
		want    credentials.Step
	}{
		"nothing is due":         {request: "new", want: credentials.Rest},
		"a rotation that is due": {want: credentials.Rotate},
		"the former login works during the grace period": {
			rotated: now.Add(-9 * time.Minute), former: true, want: credentials.AwaitGrace,
		},
		"and afterwards while it has users": {
			rotated: now.Add(-time.Hour), former: true, users: []string{"App web"}, want: credentials.AwaitUsers,
		},
		"then it retires, before the next rotation": {rotated: now.Add(-time.Hour), former: true, want: credentials.Retire},
		"then the next rotation begins":             {rotated: now.Add(-time.Hour), want: credentials.Rotate},
		"the grace period ends exactly": {
			rotated: now.Add(-10 * time.Minute), former: true, want: credentials.Retire,
		},
		"a rotation that was interrupted before the Secret": {former: true, want: credentials.Retire},
		"a former login that was given back its login": {
			rotated: now.Add(-99 * time.Hour), former: true, request: "new", want: credentials.Retire,
		},
		"a clock that was set back extends the grace period": {
			rotated: now.Add(30 * time.Minute), former: true, want: credentials.AwaitGrace,
		},
		"without a former login, users and grace do not count": {
			rotated: now, users: []string{"App web"}, request: "new", want: credentials.Rest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			step, waitingFor := waits.Step(credentials.Record{Created: created, Rotated: c.rotated, Request: c.request},
				c.former, func() []string { return c.users }, now)
			controllertest.Equal(t, "step", c.want, step)
			if step != credentials.AwaitUsers {
				c.users = nil
			}
			controllertest.Equal(t, "users", c.users, waitingFor)
		})
	}
}

func TestUsersRecheck(t *testing.T) {
	for name, c := range map[string]struct{ ended, want time.Duration }{
		"at the end of the grace period":  {0, 5 * time.Second},
		"before it, with a changed clock": {-time.Hour, 5 * time.Second},
		"soon after it":                   {49 * time.Second, 5 * time.Second},
		"a tenth of the wait":             {10 * time.Minute, time.Minute},
		"at least as often as a resync":   {100 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			schedule := credentials.Schedule{Grace: time.Minute}
			controllertest.Equal(t, "delay", c.want,
				schedule.UsersRecheck(credentials.Record{Rotated: now.Add(-c.ended - time.Minute)}, now, 5*time.Minute))
		})
	}
	controllertest.Equal(t, "delay without a rotation", 5*time.Minute,
		credentials.Schedule{}.UsersRecheck(credentials.Record{Created: created}, now, 5*time.Minute))
}

func TestKeepLoginOfExistingSecret(t *testing.T) {
	build := func(login, password string, annotations map[string]string) *corev1.Secret {
		s := credentials.Secret(metav1.ObjectMeta{Name: "shop", Annotations: annotations}, credentials.Connection{
			Username: login, Host: "db", Port: "5432", Database: "shop", TLSMode: "disable",
		}, password)
		return s
	}
	record := map[string]string{credentials.RotatedAtAnnotation: "2026-03-01T12:00:00Z", credentials.RotateAnnotation: "1"}
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		live, want *corev1.Secret
	}{
		"login, password and record stay": {
			live: build("clerk-login1", "theirs", record), want: build("clerk-login1", "theirs", record),
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
		"a time in the far future becomes now": {
			live: build("clerk", "theirs", map[string]string{credentials.RotatedAtAnnotation: "9999-01-01T00:00:00Z"}),
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
