//go:build integration

package integration

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// TestPlatformRunsChangedTaskAgainBeforeItsDependents runs a migration that fails in the first release and is then
// corrected. In the second release, the migration and its App change together.
func TestPlatformRunsChangedTaskAgainBeforeItsDependents(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	// release sets the command of the task and the image of the App.
	release := func(line, image string) {
		t.Helper()
		shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
			p.Spec.Components[0].App.Image = image
			p.Spec.Components[1].At.Command = []string{"sh", "-c", line}
		})
	}
	image := func() string {
		t.Helper()
		app, err := shared.Windlass.WindlassV1alpha1().Apps(namespace).Get(t.Context(), namespace+"-web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return app.Spec.Image
	}
	uid := func() string {
		t.Helper()
		at, err := shared.Windlass.CnatV1().Ats(namespace).Get(t.Context(), namespace+"-job", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(at.UID)
	}
	job := task("job")
	job.At.Command = []string{"sh", "-c", "exit 3"}
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{web("web:1", managed, "job"), job},
	})
	component(t, shared, namespace, "job", "Done")

	release("true", "web:1") // the task is corrected
	shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	first := uid()

	release("exit 4", "web:2")
	platform := shared.PlatformWith(t, namespace, "waiting for the failed task", func(p *v1alpha1.Platform) bool {
		return p.Status.Phase == v1alpha1.PlatformFailed && p.Status.Components[1].Phase == "Done"
	})
	if got, want := platform.Status.Components[0].Message, "Waiting for job to succeed. Until then, App "+namespace+
		"-web stays as it is."; got != want {
		t.Errorf("the message of web is %q, want %q", got, want)
	}
	if image() != "web:1" || uid() == first {
		t.Errorf("the image of the App is %s, and the At is %s after %s", image(), uid(), first)
	}

	release("sleep 2", "web:2")
	platform = shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	if image() != "web:2" {
		t.Errorf("the image of the App is %s", image())
	}
	succeeded := []bool{}
	for _, run := range platform.Status.Components[1].Runs {
		succeeded = append(succeeded, run.Succeeded)
		if run.StartTime == nil || run.CompletionTime == nil || run.ExitCode == nil {
			t.Errorf("a run has no times or no exit code: %+v", run)
		}
	}
	if !slices.Equal(succeeded, []bool{true, false, true}) {
		t.Errorf("the last runs have succeeded: %v", succeeded)
	}
	lines := []string{}
	for _, line := range requests(t, namespace) {
		verb, of, _ := strings.Cut(line, " ")
		if strings.HasPrefix(of, "ats "+namespace+"/"+namespace+"-job") && verb != "get" || of == "apps "+namespace+"/"+
			namespace+"-web" && verb == "patch" {
			lines = append(lines, verb+" "+strings.Fields(of)[0])
		}
	}
	// The task ran four times: it failed, succeeded after the correction, failed in the second release, and succeeded.
	want := []string{
		"create ats", "delete ats", "create ats", "delete ats", "create ats", "delete ats", "create ats", "patch apps",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the requests are %q, want %q", lines, want)
	}
}
