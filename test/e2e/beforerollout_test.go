//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestBeforeRolloutHoldsReleaseThatFails releases three versions of an App. The command of the second version fails.
func TestBeforeRolloutHoldsReleaseThatFails(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	command := func(line string) *v1alpha1.AppBeforeRollout {
		return &v1alpha1.AppBeforeRollout{Command: []string{"sh", "-c", line}}
	}
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Probe: &v1alpha1.AppProbe{Path: "/"}, Config: map[string]string{"greeting": "Hello"},
		BeforeRollout: command(`test "$(cat /etc/app/greeting)" = Hello`),
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	pod := podsOfApp(t, namespace)

	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		app.Spec.Config["greeting"] = "Goodbye"
		app.Spec.BeforeRollout = command("sleep 2; echo starting; echo there is no table orders; exit 3")
	})
	running := here.AppReason(t, namespace, "web", "BeforeRolloutRunning")
	t.Logf("while the command runs: phase %s, Ready: %s", running.Status.Phase,
		meta.FindStatusCondition(running.Status.Conditions, "Ready").Message)
	failed := here.AppReason(t, namespace, "web", "BeforeRolloutFailed")
	message := meta.FindStatusCondition(failed.Status.Conditions, "Ready").Message
	t.Logf("after the command: phase %s, Ready: %s", failed.Status.Phase, message)
	if !strings.Contains(message, "exit code 3") ||
		!strings.HasSuffix(message, "The last line of its log: there is no table orders") {
		t.Errorf("the message does not say why the command failed: %s", message)
	}
	if now := podsOfApp(t, namespace); now != pod {
		t.Errorf("the Pods are %s, want %s", now, pod)
	}
	if got := greeting(t, namespace); got != "Hello" {
		t.Errorf("the file of the running Pod is %q, want Hello", got)
	}

	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		app.Spec.BeforeRollout = command(`test "$(cat /etc/app/greeting)" = Goodbye`)
	})
	ready := here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	framework.Eventually(t, "the previous Pod to be deleted", func(context.Context) (bool, error) {
		return !strings.Contains(podsOfApp(t, namespace), pod), nil
	})
	if got := greeting(t, namespace); got != "Goodbye" {
		t.Errorf("the file of the new Pod is %q, want Goodbye", got)
	}
	for _, run := range ready.Status.BeforeRolloutRuns {
		t.Logf("run: %s, exit code %d, from %s to %s: %s", run.Phase, *run.ExitCode, run.StartTime.UTC(),
			run.CompletionTime.UTC(), run.Message)
	}
	if len(ready.Status.BeforeRolloutRuns) != 3 {
		t.Errorf("there were %d runs, want 3", len(ready.Status.BeforeRolloutRuns))
	}
	events, err := kubectl(t.Context(), "", "get", "events", "-n", namespace, "--field-selector",
		"involvedObject.kind=App", "-o", `jsonpath={range .items[*]}{.type} {.reason}: {.message}{"\n"}{end}`)
	t.Logf("Events of the App (%v):\n%s", err, events)
	if !strings.Contains(events, "Warning BeforeRolloutFailed") {
		t.Error("no Warning says that the command failed")
	}
}

// podsOfApp returns the names of the Pods of App web.
func podsOfApp(t *testing.T, namespace string) string {
	t.Helper()
	names, err := kubectl(t.Context(), "", "get", "pods", "-n", namespace, "-l", "windlass.dev/app=web", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(names)
}
