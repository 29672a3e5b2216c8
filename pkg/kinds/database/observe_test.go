package database

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/postgresql"
)

const patchPod = "patch pods default/shop-0"

// fakeServer is a Connector that connects to one fake server.
type fakeServer struct {
	f     fixture
	old   bool // whether the server has the previous settings
	seen  postgresql.ServerSettings
	err   error
	looks int
	// rejectsNext is true if the server does not accept the next login of a rotation.
	rejectsNext bool
}

// Settings implements Connector.
func (s *fakeServer) Settings(
	_ context.Context, namespace string, as postgresql.Settings,
) (postgresql.ServerSettings, error) {
	s.looks++
	of, _ := loginsIn("app", s.f.secret(), s.f.settings())
	wanted := of.current
	if of.other.state == loginPassword && as.Username == of.other.name {
		wanted = of.other
	}
	want := postgresql.Settings{
		Host: "10.0.0.7", Port: 5432, Username: wanted.name, Password: wanted.password, Database: "app",
		Mode: postgresql.VerifyFull, CA: s.f.encryption().authorities, ServerName: "shop.default.svc",
	}
	controllertest.Equal(s.f.T, "settings of the login to a server in "+namespace, want, as)
	if s.rejectsNext && wanted == of.other {
		return postgresql.ServerSettings{}, postgresql.NewError(postgresql.LoginRejected, "no such role")
	}
	if s.err != nil {
		return postgresql.ServerSettings{}, s.err
	}
	seen := s.seen
	if seen.Revision = s.f.revision(); s.old {
		seen.Revision = "previous"
	}
	return seen, nil
}

// running returns a Database whose Pod has run for an hour, and its server.
func running(t *testing.T, changes ...func(*v1alpha1.Database)) (fixture, *fakeServer) {
	t.Helper()
	return runningWith(t, Options{}, changes...)
}

func runningWith(t *testing.T, options Options, changes ...func(*v1alpha1.Database)) (fixture, *fakeServer) {
	t.Helper()
	server := &fakeServer{}
	options.Connector = server
	f := newFixtureWith(t, options, example(changes...))
	server.f = f
	if r := f.Reconcile(); r.Err != nil {
		t.Fatal(r.Err)
	}
	f.Clock.Step(time.Hour)
	f.start()
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "new" })
	pod := f.pod("new",
		corev1.PodStatus{PodIP: "10.0.0.7", Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: containerName, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Clock.Now().Truncate(time.Second))},
			},
		}}})
	pod.UID, pod.CreationTimestamp = "pod-uid", metav1.NewTime(f.Clock.Now())
	f.Store(pod)
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
	controllertest.Equal(t, "looks at the new server", 1, server.looks)
	controllertest.Equal(t, "revision in the status", f.revision(), f.Object().Status.Server.Revision)
	f.Clock.Step(time.Hour)
	return f, server
}

func workMem(value v1alpha1.ParameterValue) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) {
		db.Generation++
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": value}
	}
}

func TestChangedSettingsAreApplied(t *testing.T) {
	manual := func(db *v1alpha1.Database) { db.Spec.UpdatePolicy = v1alpha1.UpdateManual }
	pending := postgresql.ServerSettings{PendingRestart: []string{"max_connections"}}
	away := postgresql.NewError(postgresql.Silent, "no response")
	for name, c := range map[string]struct {
		database func(*v1alpha1.Database)
		change   func(*v1alpha1.Database)
		server   fakeServer
		after    time.Duration // until the second reconcile
		writes   []string      // of the first reconcile
		reason   string        // after the second reconcile
		progress string
		pending  []string
		again    time.Duration // 0 means the resync
		err      string
	}{
		"a server that has the settings": {
			reason: "Available", progress: "Available", writes: []string{patchSettings, patchPod, updateStatus},
		},
		"a server that has not looked yet": {
			server: fakeServer{old: true}, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "Available", progress: "ApplyingSettings", again: lookAgain,
		},
		"a server that does not know the password yet": {
			server: fakeServer{err: postgresql.NewError(postgresql.LoginRejected, "no")}, writes: []string{
				patchSettings, patchPod, updateStatus,
			},
			reason: "Available", progress: "ApplyingSettings", again: lookAgain,
		},
		"a server that still has its previous mode of TLS": {
			server: fakeServer{err: postgresql.NewError(postgresql.Untrusted, "no TLS")}, writes: []string{
				patchSettings, patchPod, updateStatus,
			},
			reason: "Available", progress: "ApplyingSettings", again: lookAgain,
		},
		"a server that the operator cannot reach": {
			server: fakeServer{err: away}, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "Available", progress: "ApplyingSettings", again: awayAgain,
		},
		"a server that the operator cannot reach, after 3 minutes": {
			server: fakeServer{err: away}, after: settleTime, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "Available", progress: "Available",
		},
		"a server that never looks": {
			server: fakeServer{old: true}, after: settleTime, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "SettingsNotApplied", progress: "SettingsNotApplied", err: "See `kubectl logs -n default shop-0`",
		},
		"a server that rejects a setting": {
			server: fakeServer{
				seen: postgresql.ServerSettings{Problem: "PostgreSQL rejects a parameter: invalid value."},
			}, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "SettingsRejected", progress: "SettingsRejected", err: "PostgreSQL rejects a parameter: invalid " +
				"value. PostgreSQL continues to run",
		},
		"a server that is about to restart": {
			server: fakeServer{seen: pending}, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "RestartPending", progress: "ApplyingSettings", again: lookAgain, pending: []string{"max_connections"},
		},
		"a server that waits for a restart": {
			database: manual, server: fakeServer{seen: pending}, writes: []string{patchSettings, patchPod, updateStatus},
			reason: "RestartPending", progress: "RestartPending", pending: []string{"max_connections"},
		},
		"a change of the image that waits for a restart": {
			database: manual, change: withImage("postgres:17.7"), writes: []string{updateStatus},
			reason: "RestartPending", progress: "RestartPending", pending: []string{"spec.image"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.database == nil {
				c.database = func(*v1alpha1.Database) {}
			}
			f, server := running(t, c.database)
			server.old, server.err, server.seen = c.server.old, c.server.err, c.server.seen
			if c.change == nil {
				c.change = workMem("8MB")
			}
			f.Change(c.change)
			r := f.Reconcile()
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			f.Clock.Step(c.after)
			r = f.Reconcile()
			controllertest.ErrorContains(t, c.err, r.Err)
			controllertest.Equal(t, "reason", c.reason, f.reason())
			progress := "none"
			for _, line := range controllertest.Conditions(f.Object()) {
				if rest, found := strings.CutPrefix(line, "Progressing="); found {
					progress = strings.Fields(strings.ReplaceAll(rest, ":", " "))[1]
				}
			}
			controllertest.Equal(t, "reason of Progressing", c.progress, progress)
			controllertest.Equal(t, "pending", c.pending, f.Object().Status.PendingRestart)
			if c.again != 0 {
				controllertest.Equal(t, "time of the next look", c.again, r.Result.RequeueAfter)
			}
		})
	}
}

func TestServerIsLookedAtOncePerChange(t *testing.T) {
	f, server := running(t)
	looks := func(when string, want int) {
		t.Helper()
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		controllertest.Equal(t, "looks "+when, want, server.looks)
	}
	looks("without a change", 1)
	f.Change(workMem("8MB"))
	looks("after a change", 2)
	looks("after the change was seen", 2)
	f.Restart()
	looks("after a restart of the operator", 2)
}

// TestPodIsNotNotifiedAgainWhileItsCacheIsOutdated freezes the cache of Pods. A second patch of the annotation would
// change nothing, and the operator would send it at each periodic check.
func TestPodIsNotNotifiedAgainWhileItsCacheIsOutdated(t *testing.T) {
	f, _ := running(t)
	pods := f.Owned.Core().V1().Pods().Informer().GetStore()
	f.Change(workMem("8MB"))
	f.Observe()
	cached, version := pods.List(), pods.LastStoreSyncResourceVersion()
	controllertest.Equal(t, "writes", []string{patchSettings, patchPod, updateStatus}, f.ReconcileAsCached().Writes)
	f.Observe()
	if err := pods.Replace(cached, version); err != nil {
		t.Fatal(err)
	}
	r := f.ReconcileAsCached()
	controllertest.Equal(t, "writes with an outdated cache of Pods", nil, r.Writes)
	controllertest.ErrorContains(t, "the cache is outdated", r.Err)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
}

func TestWithoutConnectionsChangeCountsAsMade(t *testing.T) {
	f := readyFixture(t)
	f.Change(workMem("8MB"))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{patchSettings, updateStatus}, r.Writes)
	controllertest.Equal(t, "conditions", []string{
		"Degraded=False AsExpected", "Progressing=False Available: PostgreSQL accepts connections.",
		"Ready=True Available: PostgreSQL accepts connections.",
	}, controllertest.Conditions(f.Object()))
}
