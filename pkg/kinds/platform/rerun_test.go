package platform

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	deleteJob = "delete ats shops/shop-job"
	createJob = "create ats shops/shop-job"
	patchWeb  = "patch apps shops/shop-web"
)

// newRelease returns a fixture of a Platform whose App web depends on the task job. The first release is finished. Then
// states change the At of the task, and the user changes the image of all components for the second release.
func newRelease(t *testing.T, states ...childState) fixture {
	t.Helper()
	f := newFixture(t, example(app("web", "job"), at("job"), app("docs")), namespace())
	f.addChild(app("web", "job"), ready)
	f.addChild(app("docs"), ready)
	f.addChild(at("job"), states...)
	f.settle()
	f.changeImages("new")
	return f
}

// changeImages changes the images of all components of the Platform of newRelease.
func (f fixture) changeImages(image string) {
	f.T.Helper()
	f.Change(func(p *v1alpha1.Platform) {
		for i := range p.Spec.Components {
			p.Spec.Components[i] = version(p.Spec.Components[i], image)
		}
		p.Generation++
	})
}

// job returns the stored At of the component job, or nil.
func (f fixture) job() *cnatv1.At {
	f.T.Helper()
	return kindtest.Get[*cnatv1.At](f.Cluster, "shops", "shop-job")
}

// changeJob changes the stored At as its controller does.
func (f fixture) changeJob(change childState) {
	f.T.Helper()
	kindtest.Change(f.Cluster, "shops", "shop-job", func(at *cnatv1.At) { change(at) })
}

// webIsReady makes the App report the status of its newest generation.
func (f fixture) webIsReady() {
	f.T.Helper()
	kindtest.Change(f.Cluster, "shops", "shop-web", func(app *v1alpha1.App) {
		app.Status.ObservedGeneration = app.Generation
		ready(app)
	})
}

// message returns the message of a component in the status.
func (f fixture) message(name v1alpha1.ComponentName) string {
	f.T.Helper()
	for _, c := range f.Object().Status.Components {
		if c.Name == name {
			return c.Message
		}
	}
	f.T.Fatalf("the status lists no component %s", name)
	return ""
}

// runs returns the runs of the component job in the status.
func (f fixture) runs() (runs []string) {
	f.T.Helper()
	for _, run := range previousStatus(f.Object().Status.Components, "At", "job").Runs {
		runs = append(runs, fmt.Sprint(run.Image, " ", run.Succeeded, " ", run.Reason, " ", ptr.Deref(run.ExitCode, -1)))
	}
	return runs
}

// containsInOrder fails the test unless writes contains want in this order, and no other write about web or job.
func containsInOrder(t *testing.T, writes []string, want ...string) {
	t.Helper()
	var got []string
	for _, write := range writes {
		if strings.HasSuffix(write, "shop-job") || strings.HasSuffix(write, "shop-web") {
			got = append(got, write)
		}
	}
	controllertest.Equal(t, "writes about the task and its dependent", want, got)
}

func TestReleaseRollsAppAfterMigrationSucceeded(t *testing.T) {
	for name, first := range map[string]childState{
		"after a run that succeeded": doneAt(0), "after a run that failed": doneAt(3),
	} {
		t.Run(name, func(t *testing.T) {
			f := newRelease(t, first)
			previous := f.job().UID
			containsInOrder(t, f.settle(), deleteJob, createJob)
			if job := f.job(); job.UID == previous || job.Spec.Image != "new" {
				t.Errorf("the At is %s with image %q", job.UID, job.Spec.Image)
			}
			controllertest.Equal(t, "image of the dependent", "web:1", f.app("web").Spec.Image)
			controllertest.Equal(t, "image of the other component", "new", f.app("docs").Spec.Image)
			controllertest.Equal(t, "message", "Waiting for job to succeed. Until then, App shop-web stays as it is.",
				f.message("web"))
			f.changeJob(startedAt)
			containsInOrder(t, f.settle())
			f.changeJob(doneAt(0))
			containsInOrder(t, f.settle(), patchWeb)
			controllertest.Equal(t, "image of the dependent", "new", f.app("web").Spec.Image)
			controllertest.Equal(t, "runs", 2, len(f.runs()))
			f.webIsReady()
			f.settle()
			controllertest.Equal(t, "writes at rest", nil, f.settle())
		})
	}
}

func TestFailedMigrationLeavesAppAsItIsUntilItIsCorrected(t *testing.T) {
	f := newRelease(t, doneAt(0))
	f.settle()
	f.changeJob(doneAt(3))
	containsInOrder(t, f.settle())
	controllertest.Equal(t, "image of the dependent", "web:1", f.app("web").Spec.Image)
	f.checkComponents(
		withRuns(f, reported("web", "App", v1alpha1.Managed, "Ready", reasonWaiting)),
		withRuns(f, reported("job", "At", v1alpha1.Managed, "Done", "BackoffLimitExceeded")),
		reported("docs", "App", v1alpha1.Managed, "Pending", reasonNew),
	)
	f.Restart()
	containsInOrder(t, f.settle()) // an unchanged task does not run again
	f.changeImages("newer")
	containsInOrder(t, f.settle(), deleteJob, createJob)
	f.changeJob(doneAt(0))
	containsInOrder(t, f.settle(), patchWeb)
	controllertest.Equal(t, "image of the dependent", "newer", f.app("web").Spec.Image)
	controllertest.Equal(t, "runs", []string{
		"newer true CommandSucceeded 0", "new false BackoffLimitExceeded 3", " true CommandSucceeded 0",
	}, f.runs())
}

// withRuns adds the stored runs to the expected status of a component.
func withRuns(f fixture, want v1alpha1.PlatformComponentStatus) v1alpha1.PlatformComponentStatus {
	want.Runs = previousStatus(f.Object().Status.Components, want.Kind, want.Name).Runs
	return want
}

func TestRunningTaskIsNotDeleted(t *testing.T) {
	f := newRelease(t, startedAt)
	containsInOrder(t, f.settle())
	controllertest.Equal(t, "message",
		"The spec has changed, but At shop-job still runs with its previous spec. After its command has ended, the "+
			"operator creates the At again. To stop the command now, delete the At.", f.message("job"))
	f.checkCondition("Progressing=True ComponentsNotReady")
	f.changeJob(doneAt(0))
	containsInOrder(t, f.settle(), deleteJob, createJob)
	controllertest.Equal(t, "image", "new", f.job().Spec.Image)
}

func TestRunningTaskThatDoesNotStartSaysWhy(t *testing.T) {
	f := newRelease(t, startedAt, stalled)
	containsInOrder(t, f.settle())
	message := f.message("job")
	if !strings.HasSuffix(message, "To stop the command now, delete the At. Its condition Ready says: It runs.") {
		t.Errorf("the message is %q", message)
	}
}

// TestUnchangedTaskRunsOnce changes fields that do not make a task run again.
func TestUnchangedTaskRunsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Platform)
	}{
		"nothing":           {change: func(*v1alpha1.Platform) {}},
		"the backoffLimit":  {change: func(p *v1alpha1.Platform) { p.Spec.Components[1].At.BackoffLimit = ptr.To[int32](5) }},
		"the labels":        {change: func(p *v1alpha1.Platform) { p.Labels = map[string]string{"team": "a"} }},
		"a default":         {change: func(p *v1alpha1.Platform) { p.Spec.Components[1].At.Suspend = ptr.To(false) }},
		"another component": {change: func(p *v1alpha1.Platform) { p.Spec.Components[2] = version(app("docs"), "docs:2") }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(app("web", "job"), at("job"), app("docs")), namespace())
			f.addChild(app("web", "job"), ready)
			f.addChild(app("docs"), ready)
			f.addChild(at("job"), doneAt(0))
			f.settle()
			f.Restart()
			f.Change(c.change)
			uid := f.job().UID
			containsInOrder(t, f.settle())
			controllertest.Equal(t, "UID", uid, f.job().UID)
		})
	}
}

func TestTaskThatUserDeletedRunsAgain(t *testing.T) {
	f := newFixture(t, example(app("web", "job"), at("job")), namespace())
	f.addChild(app("web", "job"), ready)
	f.addChild(at("job"), doneAt(3))
	f.settle()
	f.Remove(f.job())
	containsInOrder(t, f.settle(), createJob)
}

func TestTaskOfUserIsNotDeleted(t *testing.T) {
	f := newFixture(t, example(version(at("job"), "new")), namespace())
	f.addChild(at("job"), doneAt(0), foreign)
	containsInOrder(t, f.settle())
	controllertest.Equal(t, "runs", nil, f.runs())
	controllertest.Equal(t, "image", "", f.job().Spec.Image)
}

// TestRerunIsSafeWithOutdatedCache has a cache whose At is Done with the previous spec.
func TestRerunIsSafeWithOutdatedCache(t *testing.T) {
	for name, c := range map[string]struct {
		change func(fixture)
		writes []string
	}{
		"another process has run the task again": {
			change: func(f fixture) {
				job := f.job()
				f.Remove(job)
				job.UID, job.ResourceVersion, job.Spec.Image = "second", "", "new"
				f.Store(job)
			},
			writes: []string{deleteJob},
		},
		"a label of the At has changed": {
			change: func(f fixture) { f.changeJob(func(at controller.Object) { at.SetLabels(nil) }) }, writes: []string{
				deleteJob,
			},
		},
		"the At was deleted":            {change: func(f fixture) { f.Remove(f.job()) }, writes: []string{deleteJob}},
		"the spec was changed back":     {change: func(f fixture) { f.changeImages("") }},
		"the Platform is being deleted": {change: fixture.delete},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(version(at("job"), "new")), namespace())
			f.addChild(at("job"), doneAt(0))
			f.Reconcile() // stores the run
			f.Observe()
			c.change(f)
			before := f.job()
			r := f.ReconcileAsCached()
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			if r.Err == nil {
				t.Error("the reconcile returned no error")
			}
			controllertest.Equal(t, "At", before, f.job())
		})
	}
}

// TestRunIsStoredBeforeTaskIsDeleted fails the writes of a rerun one after the other.
func TestRunIsStoredBeforeTaskIsDeleted(t *testing.T) {
	f := newFixture(t, example(version(at("job"), "new")), namespace())
	f.addChild(at("job"), doneAt(3))
	f.Journal.FailNext("update", "platforms/status", apierrors.NewInternalError(fmt.Errorf("no")))
	controllertest.Equal(t, "writes of the reconcile whose status write fails", []string{
		updateStatus,
	}, f.Reconcile().Writes)
	controllertest.Equal(t, "runs", nil, f.runs())
	controllertest.Equal(t, "writes of the next reconcile", []string{updateStatus}, f.Reconcile().Writes)
	controllertest.Equal(t, "runs", []string{" false BackoffLimitExceeded 3"}, f.runs())
	f.Journal.FailNext("delete", "ats", apierrors.NewInternalError(fmt.Errorf("no")))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "deleting At", r.Err)
	controllertest.Equal(t, "writes of the reconcile whose deletion fails", []string{deleteJob, updateStatus}, r.Writes)
	f.Restart() // the process dies before the deletion
	controllertest.Equal(t, "writes of the deletion", []string{deleteJob, updateStatus}, f.Reconcile().Writes)
	controllertest.Equal(t, "writes during the deletion", nil, f.Reconcile().Writes)
	f.checkComponents(withRuns(f, reported("job", "At", v1alpha1.Managed, "Waiting", reasonChanged)))
	f.CollectGarbage()
	f.Restart() // the process dies before the creation
	controllertest.Equal(t, "writes of the creation", []string{createJob, updateStatus}, f.Reconcile().Writes)
	controllertest.Equal(t, "runs", []string{" false BackoffLimitExceeded 3"}, f.runs())
}

func TestReleasedTaskIsReclaimedBeforeItRunsAgain(t *testing.T) {
	f := newFixture(t, example(version(at("job"), "new")), namespace())
	f.addChild(at("job"), doneAt(0), released)
	containsInOrder(t, f.settle(), "patch ats shops/shop-job", deleteJob, createJob)
}

func TestPendingTaskIsChangedInPlace(t *testing.T) {
	f := newFixture(t, example(version(at("job"), "new")), namespace())
	f.addChild(at("job"), func(child controller.Object) { child.(*cnatv1.At).Status.Phase = cnatv1.AtPending })
	containsInOrder(t, f.settle(), "patch ats shops/shop-job")
	controllertest.Equal(t, "image", "new", f.job().Spec.Image)
}

// TestTaskThatWebhookChangesRunsOnce has a child whose spec is not the desired spec, because another client changes it
// when it is created.
func TestTaskThatWebhookChangesRunsOnce(t *testing.T) {
	for name, state := range map[string]childState{"that runs": startedAt, "that has finished": doneAt(0)} {
		t.Run("a task "+name, func(t *testing.T) {
			f := newFixture(t, example(at("job")), namespace())
			f.addChild(at("job"), state)
			f.changeJob(func(child controller.Object) { child.(*cnatv1.At).Spec.Image = "mirror.example.com/busybox:1" })
			f.changeJob(func(child controller.Object) { *child.StatusObservedGeneration() = child.GetGeneration() })
			containsInOrder(t, f.settle())
			f.changeImages("new")
			f.changeJob(doneAt(0))
			containsInOrder(t, f.settle(), deleteJob, createJob)
		})
	}
}

// TestStartedTaskKeepsDigestOfItsSpec has a task that the cache lacks, so that its creation finds the existing child.
func TestStartedTaskKeepsDigestOfItsSpec(t *testing.T) {
	f := newFixture(t, example(version(at("job"), "new")), namespace())
	f.addChild(at("job"), doneAt(0))
	digest := f.job().Annotations[specAnnotation]
	f.Observe()
	if err := f.Kinds.Cnat().V1().Ats().Informer().GetStore().Replace(nil, "999"); err != nil {
		t.Fatal(err)
	}
	f.ReconcileAsCached()
	controllertest.Equal(t, "digest", digest, f.job().Annotations[specAnnotation])
	containsInOrder(t, f.settle(), deleteJob, createJob)
}
