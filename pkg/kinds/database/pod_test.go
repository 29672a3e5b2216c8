package database

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestDatabaseImage(t *testing.T) {
	for name, c := range map[string]struct {
		flag, spec, want string
		policy           corev1.PullPolicy
	}{
		"the default is the image of Docker": {want: "postgres:17", policy: corev1.PullIfNotPresent},
		"the flag sets the image without the tag": {
			flag: "registry.example.com:5000/library/postgres", want: "registry.example.com:5000/library/postgres:17",
			policy: corev1.PullIfNotPresent,
		},
		"the image in the spec overrides the flag": {
			flag: "mirror/postgres", spec: "postgres@sha256:0123", want: "postgres@sha256:0123",
			policy: corev1.PullIfNotPresent,
		},
		"an image without a tag is always pulled": {spec: "postgres", want: "postgres", policy: corev1.PullAlways},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, Options{Image: c.flag}, example(withImage(c.spec)))
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			container := f.statefulSet().Spec.Template.Spec.Containers[0]
			controllertest.Equal(t, "image", c.want, container.Image)
			controllertest.Equal(t, "pull policy", c.policy, container.ImagePullPolicy)
		})
	}
}

func TestPodHasNoVariablesForServices(t *testing.T) {
	controllertest.Equal(t, "enableServiceLinks", ptr.To(false), desiredPod(example(), DefaultImage).EnableServiceLinks)
}

func TestScriptHasNoReferencesToVariables(t *testing.T) {
	for _, reference := range []string{"$$", "$(PG", "$(STATE", "$(SETTINGS"} {
		if strings.Contains(serverScript, reference) {
			t.Errorf("the script has %s, which the kubelet replaces", reference)
		}
	}
}

func TestParametersAreLines(t *testing.T) {
	db := example(func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{
			"search_path": `"$user", public`, "archive_command": "echo $(PGDATA)", "work_mem": "",
		}
	})
	controllertest.Equal(t, "parameters", "archive_command=echo $(PGDATA)\nsearch_path=\"$user\", public\nwork_mem=",
		parameters(db))
}

func TestDatabaseNamesInjectedContainer(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for name, c := range kindtest.InjectedPods(containerName, start) {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.Clock.SetTime(start)
			f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 })
			f.Store(f.pod("new", c.Status))
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			f.checkProblem(c, "Pod shop-0 does not start: ")
			controllertest.Equal(t, "writes of the next reconcile", nil, f.Reconcile().Writes)
		})
	}
}

// checkProblem checks that the status has the problem of an injected container. The message begins with prefix.
func (f fixture) checkProblem(c kindtest.Injected, prefix string) {
	f.T.Helper()
	controllertest.Equal(f.T, "reason", c.Reason, f.reason())
	controllertest.Equal(f.T, "Degraded", true, conditions.IsTrue(f.Object().Status.Conditions, conditions.Degraded))
	want := prefix + c.Problem + ". See `kubectl describe pod -n default shop-0`."
	if c.Words != "" {
		want += " " + c.Words
	}
	controllertest.Equal(f.T, "message", want, f.ready().Message)
}

// TestDatabaseNamesCrashingSidecar has a PostgreSQL that runs, and that has crashed once before: the crashes of the
// sidecar are not taken for crashes of PostgreSQL.
func TestDatabaseNamesCrashingSidecar(t *testing.T) {
	f := readyFixture(t)
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 })
	c := kindtest.InjectedPods(containerName, f.Clock.Now())["an injected container that crashes"]
	running := &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Clock.Now())}
	c.Status.ContainerStatuses[0] = crashed(corev1.ContainerState{Running: running}, "killed").ContainerStatuses[0]
	f.Store(f.pod("new", c.Status))
	for range 2 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		f.checkProblem(c, "PostgreSQL runs, but Pod shop-0 is not ready: ")
	}
}

func TestReconcileReplacesPodThatInjectedContainerBlocks(t *testing.T) {
	f := readyFixture(t)
	f.changeStatefulSet(func(s *appsv1.StatefulSet) {
		s.Status.UpdateRevision, s.Status.UpdatedReplicas, s.Status.ReadyReplicas = "new", 0, 0
	})
	c := kindtest.InjectedPods(containerName, f.Clock.Now())["an injected init container that crashes"]
	f.Store(f.pod("old", c.Status))
	controllertest.Equal(t, "writes", []string{"delete pods default/shop-0", updateStatus}, f.Reconcile().Writes)
}
