package platform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// Observed states of a task.
var (
	finishedTask = fact{task: true, there: true, ours: true, bound: true, ready: true, noted: true}
	runningTask  = fact{task: true, there: true, ours: true, bound: true, running: true}
	missingTask  = fact{task: true}
)

// changedTask returns the state of a task whose spec has changed since it started in the state observed.
func changedTask(observed fact, changes ...func(*fact)) fact {
	observed.changed, observed.ready, observed.noted = true, false, true
	for _, change := range changes {
		change(&observed)
	}
	return observed
}

// TestNextOfTasks checks the next step of the first component of each list.
func TestNextOfTasks(t *testing.T) {
	changed := changedTask(finishedTask)
	for name, c := range map[string]struct {
		facts facts
		want  step
	}{
		"a task that has finished is kept":        {facts{managedFact("job", finishedTask)}, step{verb: keep}},
		"a task that runs is kept":                {facts{managedFact("job", runningTask)}, step{verb: keep}},
		"a changed task runs again":               {facts{managedFact("job", changed)}, step{verb: rerun}},
		"a changed task that runs is not deleted": {facts{managedFact("job", changedTask(runningTask))}, step{verb: finish}},
		"the run of a changed task is stored first": {
			facts{managedFact("job", changedTask(finishedTask, func(f *fact) { f.noted = false }))}, step{verb: note},
		},
		"a changed task is listed in the status first": {
			facts{unannounced(managedFact("job", changed))}, step{verb: announce},
		},
		"a changed task of a user is not deleted": {
			facts{managedFact("job", changedTask(finishedTask, func(f *fact) { f.ours, f.bound = false, false }))},
			step{verb: keep},
		},
		"a released changed task is reclaimed first": {
			facts{managedFact("job", changedTask(finishedTask, func(f *fact) { f.bound = false }))}, step{verb: reclaim},
		},
		"a changed task that is being deleted is awaited": {
			facts{managedFact("job", changedTask(finishedTask, func(f *fact) { f.going = true }))}, step{verb: await},
		},
		"a changed task waits for its dependency before it is deleted": {
			facts{managedFact("job", changed, "db"), managedFact("db", pendingChild)}, step{queue, []string{"db"}},
		},
		"a changed task waits for another changed task": {
			facts{
				managedFact("job", changed, "web"), managedFact("web", readyChild, "first"), managedFact("first", changed),
			}, step{queue, []string{"first"}},
		},
		"a changed Unmanaged task is left as it is": {
			facts{unmanagedFact("job", fact{task: true, there: true, ours: true, changed: true})}, step{verb: leave},
		},

		"a dependent of a changed task stays": {
			facts{managedFact("web", readyChild, "job"), managedFact("job", changed)}, step{stay, []string{"job"}},
		},
		"a dependent of a task between deletion and creation stays": {
			facts{managedFact("web", readyChild, "job"), managedFact("job", missingTask)}, step{stay, []string{"job"}},
		},
		"a dependent of a finished task is kept": {
			facts{managedFact("web", readyChild, "job"), managedFact("job", finishedTask)}, step{verb: keep},
		},
		"a dependent of an object of a user in a task's place stays": {
			facts{
				managedFact("web", readyChild, "job"), managedFact("job", fact{task: true, there: true, ready: true}),
			}, step{stay, []string{"job"}},
		},
		"an indirect dependent of a changed task stays": {
			facts{
				managedFact("web", readyChild, "orders"), managedFact("orders", readyChild, "job"), managedFact("job", changed),
			}, step{stay, []string{"job"}},
		},
		"a new component waits for a task that it depends on indirectly": {
			facts{
				managedFact("new", noChild, "orders"), managedFact("orders", readyChild, "job"), managedFact("job", changed),
			}, step{queue, []string{"job"}},
		},
		"a released dependent is reclaimed": {
			facts{managedFact("web", releasedChild, "job"), managedFact("job", changed)}, step{verb: reclaim},
		},
		"a component beside a changed task is kept": {
			facts{managedFact("docs", readyChild), managedFact("job", changed)}, step{verb: keep},
		},
		"a dependency of a changed task is kept": {
			facts{managedFact("db", readyChild), managedFact("job", changed, "db")}, step{verb: keep},
		},
		"a dependent of a Database that is not Ready is kept": {
			facts{managedFact("web", readyChild, "db"), managedFact("db", pendingChild)}, step{verb: keep},
		},
		"a dependent of an Unmanaged task is kept": {
			facts{managedFact("web", readyChild, "job"), unmanagedFact("job", runningTask)}, step{verb: keep},
		},
		"a dependent of a Removed task is kept": {
			facts{managedFact("web", readyChild, "job"), removedFact("job", finishedTask)}, step{verb: keep},
		},
		"a dependent of a changed task is removed": {
			facts{removedFact("web", readyChild, "job"), managedFact("job", changed)}, step{verb: remove},
		},
		"a dependent of a changed task is released if it must be": {
			facts{unmanagedFact("web", readyChild, "job"), managedFact("job", changed)}, step{verb: release},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "next", c.want, newPlan(c.facts).next(c.facts[0]), cmp.AllowUnexported(step{}))
		})
	}
	homeless := newPlan(facts{managedFact("job", changed)})
	homeless.homeless = true
	controllertest.Equal(t, "next without a namespace", blocked, homeless.next(homeless.components[0]).verb)
}

func TestHasChanged(t *testing.T) {
	base := cnatv1.AtSpec{Schedule: "2020-01-01T00:00:00Z", Command: []string{
		"true",
	}, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"cpu": resource.MustParse("0.5")},
	}}
	done := func(at *cnatv1.At) { at.Status.Phase = cnatv1.AtDone }
	for name, c := range map[string]struct {
		live   func(*cnatv1.At)
		change func(*cnatv1.AtSpec)
		want   bool
	}{
		"the same spec":    {live: done, change: func(*cnatv1.AtSpec) {}},
		"another schedule": {live: done, change: func(s *cnatv1.AtSpec) { s.Schedule = "2021-01-01T00:00:00Z" }, want: true},
		"another command while it runs": {
			live: func(at *cnatv1.At) { at.Status.Phase = cnatv1.AtRunning }, change: func(s *cnatv1.AtSpec) {
				s.Image = "other:1"
			}, want: true,
		},
		"another command before it starts": {
			live: func(at *cnatv1.At) { at.Status.Phase = cnatv1.AtPending }, change: func(s *cnatv1.AtSpec) {
				s.Image = "other:1"
			},
		},
		"another suspend": {
			live: done, change: func(s *cnatv1.AtSpec) { s.Suspend = ptr.To(true) }, want: true,
		},
		"an explicit default": {
			live: done, change: func(s *cnatv1.AtSpec) {
				s.Suspend, s.Restricted, s.Args = ptr.To(false), ptr.To(false), []string{}
			},
		},
		"the same quantity in other words": {
			live: done, change: func(s *cnatv1.AtSpec) { s.Resources.Limits["cpu"] = resource.MustParse("500m") },
		},
		"another quantity": {
			live: done, change: func(s *cnatv1.AtSpec) { s.Resources.Limits["cpu"] = resource.MustParse("1") }, want: true,
		},
		"another backoffLimit": {live: done, change: func(s *cnatv1.AtSpec) { s.BackoffLimit = ptr.To[int32](3) }},
		"another ttlSecondsAfterFinished": {
			live: done, change: func(s *cnatv1.AtSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](3) },
		},
		"a child that the cache cannot hold": {
			live: func(at *cnatv1.At) { done(at); unreadable(t, at) }, change: func(s *cnatv1.AtSpec) { s.Image = "other:1" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := &cnatv1.At{Spec: *base.DeepCopy()}
			c.live(live)
			want := base.DeepCopy()
			c.change(want)
			controllertest.Equal(t, "has changed", c.want, hasChanged(live, &v1alpha1.PlatformComponent{At: want}))
		})
	}
	controllertest.Equal(t, "an App has changed", false,
		hasChanged(&v1alpha1.App{}, &v1alpha1.PlatformComponent{App: &v1alpha1.AppSpec{Image: "web:2"}}))
}

// unreadable marks an object as the caches mark an object that they cannot hold.
func unreadable(t *testing.T, object controller.Object) {
	t.Helper()
	if err := (lenient.Mark{Reason: lenient.ReasonUnreadable}).SetOn(object); err != nil {
		t.Fatal(err)
	}
}

// doneAt returns a change of an At into one whose command has ended with this exit code.
func doneAt(code int32) childState {
	return func(child controller.Object) {
		at := child.(*cnatv1.At)
		start := metav1.Now()
		at.Status.Phase = cnatv1.AtDone
		at.Status.ExitCode = &code
		at.Status.StartTime = &start
		at.Status.CompletionTime = &start
		kind, reason := cnatv1.AtComplete, "CommandSucceeded"
		if code != 0 {
			kind, reason = cnatv1.AtFailed, "BackoffLimitExceeded"
			conditions.True(&at.Status.Conditions, conditions.Degraded, reason, "It failed.")
			conditions.True(&at.Status.Conditions, conditions.Stalled, reason, "It failed.")
		}
		conditions.True(&at.Status.Conditions, kind, reason, "It ended.")
		if code == 0 {
			conditions.True(&at.Status.Conditions, conditions.Ready, reason, "It ended.")
		} else {
			conditions.False(&at.Status.Conditions, conditions.Ready, reason, "It failed.")
		}
		*at.StatusObservedGeneration() = at.Generation
	}
}

// startedAt changes an At into one whose command runs.
func startedAt(child controller.Object) {
	at := child.(*cnatv1.At)
	at.Status.Phase = cnatv1.AtRunning
	conditions.False(&at.Status.Conditions, conditions.Ready, "Running", "It runs.")
}

// version returns a component with another image.
func version(c v1alpha1.PlatformComponent, image string) v1alpha1.PlatformComponent {
	if c.At != nil {
		c.At = c.At.DeepCopy()
		c.At.Image = image
	} else {
		c.App = c.App.DeepCopy()
		c.App.Image = image
	}
	return c
}

func TestRunsOf(t *testing.T) {
	done := &cnatv1.At{ObjectMeta: metav1.ObjectMeta{UID: "new"}, Spec: cnatv1.AtSpec{Image: strings.Repeat("é", 200)}}
	doneAt(3)(done)
	run := func(uid string) v1alpha1.PlatformTaskRun {
		return v1alpha1.PlatformTaskRun{UID: types.UID("old-" + uid)}
	}
	three := []v1alpha1.PlatformTaskRun{run("c"), run("b"), run("a")}
	uids := func(runs []v1alpha1.PlatformTaskRun) (all []string) {
		for _, r := range runs {
			all = append(all, string(r.UID))
		}
		return all
	}
	for name, c := range map[string]struct {
		previous v1alpha1.PlatformComponentStatus
		change   func(*component)
		want     []string
	}{
		"a task that has become Done is added": {
			previous: v1alpha1.PlatformComponentStatus{Phase: "Running"}, want: []string{"new"},
		},
		"the fourth run replaces the oldest": {
			previous: v1alpha1.PlatformComponentStatus{Phase: "Running", Runs: three}, want: []string{"new", "old-c", "old-b"},
		},
		"a run is added once": {
			previous: v1alpha1.PlatformComponentStatus{Runs: []v1alpha1.PlatformTaskRun{{UID: "new"}}}, want: []string{"new"},
		},
		"the runs stay while there is no child": {
			previous: v1alpha1.PlatformComponentStatus{Runs: three[2:]}, change: func(c *component) { c.child = nil },
			want: []string{"old-a"},
		},
		"an At of a user is not added": {
			previous: v1alpha1.PlatformComponentStatus{}, change: func(c *component) { c.ours = false },
		},
		"the At of an Unmanaged component is not added": {
			previous: v1alpha1.PlatformComponentStatus{}, change: func(c *component) { c.state = v1alpha1.Unmanaged },
		},
		"a task that runs is not added": {
			previous: v1alpha1.PlatformComponentStatus{}, change: func(c *component) {
				at := done.DeepCopy()
				startedAt(at)
				c.child = at
			},
		},
		"a child of another kind has no runs": {
			previous: v1alpha1.PlatformComponentStatus{}, change: func(c *component) { c.child = &v1alpha1.App{} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := &component{child: done, fact: fact{ours: true, state: v1alpha1.Managed}}
			if c.change != nil {
				c.change(of)
			}
			controllertest.Equal(t, "runs", c.want, uids(runsOf(of, c.previous)))
		})
	}
	got := runOf(done)
	controllertest.Equal(t, "run", v1alpha1.PlatformTaskRun{
		UID: "new", Image: strings.Repeat("é", 128), StartTime: done.Status.StartTime,
		CompletionTime: done.Status.CompletionTime,
		Reason:         "BackoffLimitExceeded", ExitCode: ptr.To[int32](3),
	}, got)
}
