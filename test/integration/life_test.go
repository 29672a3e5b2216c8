//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/cnat/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func TestV1alpha1ManifestRunsCommandOnce(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	old := shared.Windlass.CnatV1alpha1().Ats(namespace)
	apply := func(schedule string) {
		t.Helper()
		if _, err := shared.Kubectl(t.Context(), fmt.Sprintf(`
apiVersion: cnat.programming-kubernetes.info/v1alpha1
kind: At
metadata: {name: example-at}
spec:
  schedule: %q
  command: "echo Hello"
`, schedule), "apply", "-n", namespace, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	apply("2099-01-01T00:00:00Z")
	watch, err := old.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watching Ats: %v", err)
	}
	defer watch.Stop()
	var phases []string
	for event := range watch.ResultChan() {
		at, ok := event.Object.(*v1alpha1.At)
		if !ok {
			t.Fatalf("the watch ended: %v", event.Object)
		}
		if phase := at.Status.Phase; phase != "" && !slices.Contains(phases, phase) {
			phases = append(phases, phase)
			if phase == v1alpha1.PhasePending { // not earlier, so that the watch also observes Pending on a slow machine
				apply(framework.Soon())
			}
		}
		if at.Status.Phase == v1alpha1.PhaseDone {
			break
		}
	}
	if diff := cmp.Diff([]string{"PENDING", "RUNNING", "DONE"}, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}

	at := shared.InPhase(t, namespace, "example-at", v1.AtDone)
	if diff := cmp.Diff([]string{"/bin/sh", "-c", "echo Hello"}, at.Spec.Command); diff != "" {
		t.Errorf("the command in v1 (-want +got):\n%s", diff)
	}
	pods, err := shared.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing Pods: %v", err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Name != "example-at-pod" || !metav1.IsControlledBy(&pods.Items[0], at) {
		t.Errorf("got the Pods %v, want only example-at-pod, controlled by its At", pods.Items)
	}
	wantEvents(t, namespace, "Scheduled", "Running", "CommandSucceeded")
}

// wantEvents waits until a namespace has as many Events about Ats as there are reasons. It fails the test unless the
// Events have these reasons, in any order.
func wantEvents(t *testing.T, namespace string, reasons ...string) {
	t.Helper()
	slices.Sort(reasons)
	var got []string
	framework.Eventually(t, "Events with the reasons "+strings.Join(reasons, ", "),
		func(ctx context.Context) (bool, error) {
			list, err := shared.Kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			got = nil
			for _, event := range list.Items {
				if event.Regarding.Kind == "At" {
					got = append(got, event.Reason)
				}
			}
			return len(got) >= len(reasons), nil
		})
	slices.Sort(got)
	if diff := cmp.Diff(reasons, got); diff != "" {
		t.Errorf("reasons of Events (-want +got):\n%s", diff)
	}
}

func TestAtCostsFiveWritesAndNoRead(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "counted", "echo Hello", func(at *v1.At) { at.Spec.Schedule = framework.Soon() })
	done := shared.InPhase(t, namespace, "counted", v1.AtDone)
	if done.Status.ObservedGeneration != done.Generation {
		t.Errorf("observedGeneration is %d at generation %d", done.Status.ObservedGeneration, done.Generation)
	}
	want := []string{
		"update ats/status " + namespace + "/counted",
		"update ats/status " + namespace + "/counted",
		"create pods " + namespace + "/counted-pod",
		"update ats/status " + namespace + "/counted",
		"patch pods " + namespace + "/counted-pod", // removes the finalizer
	}
	awaitReleased(t, namespace, "counted-pod")
	if diff := cmp.Diff(want, requests(t, namespace)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	// Each change of a label triggers a reconcile.
	for i := range 100 {
		_, err := shared.Windlass.CnatV1().Ats(namespace).Patch(t.Context(), "counted", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"}}}`, i), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("labelling the At: %v", err)
		}
	}
	// The At "last" becomes Done after these reconciles.
	shared.Create(t, namespace, "last", "echo Hello", nil)
	shared.InPhase(t, namespace, "last", v1.AtDone)
	var later []string
	for _, request := range requests(t, namespace)[len(want):] {
		if strings.Contains(request, "counted") {
			later = append(later, request)
		}
	}
	if len(later) > 0 {
		t.Errorf("reconciles of a finished At sent requests: %v", later)
	}
}

func TestReplacingV1alpha1ManifestKeepsStatus(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	const manifest = `
apiVersion: cnat.programming-kubernetes.info/v1alpha1
kind: At
metadata: {name: again}
spec: {schedule: "2020-01-01T00:00:00Z", command: "exit 3"}
`
	if _, err := shared.Kubectl(t.Context(), manifest, "create", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	before := shared.InPhase(t, namespace, "again", v1.AtDone)
	if _, err := shared.Kubectl(t.Context(), manifest, "replace", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	after := shared.InPhase(t, namespace, "again", v1.AtDone)
	if diff := cmp.Diff(before.Status, after.Status); diff != "" {
		t.Errorf("the status (-before +after):\n%s", diff)
	}
}

func TestAtReportsSuccessAndFailure(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "good", "echo Hello", nil)
	shared.Create(t, namespace, "bad", "exit 3", nil)
	for name, condition := range map[string]string{"good": "Complete", "bad": "Failed"} {
		_, err := shared.Kubectl(t.Context(), "", "wait", "-n", namespace, "at/"+name, "--for=condition="+condition,
			"--timeout=60s")
		if err != nil {
			t.Error(err)
		}
	}
	bad := shared.InPhase(t, namespace, "bad", v1.AtDone)
	if bad.Status.ExitCode == nil || *bad.Status.ExitCode != 3 {
		t.Errorf("the exit code is %v, want 3", bad.Status.ExitCode)
	}
	if !meta.IsStatusConditionTrue(bad.Status.Conditions, "Stalled") ||
		meta.IsStatusConditionTrue(bad.Status.Conditions, "Ready") {
		t.Errorf("a failed At must be Stalled and not Ready: %v", bad.Status.Conditions)
	}
}

func TestInvalidAtsAreRejectedAndCreateNothing(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	negative := int64(-1)
	for name, c := range map[string]struct {
		change func(*v1.At)
		want   string
	}{
		"no command":              {func(at *v1.At) { at.Spec.Command = nil }, "spec.command"},
		"an unreadable schedule":  {func(at *v1.At) { at.Spec.Schedule = "tomorrow" }, "spec.schedule"},
		"an offset out of range":  {func(at *v1.At) { at.Spec.Schedule = "2030-01-01T00:00:00+25:00" }, "spec.schedule"},
		"a day that never occurs": {func(at *v1.At) { at.Spec.Schedule = "2030-02-30T00:00:00Z" }, "spec.schedule"},
		"a negative deadline": {
			func(at *v1.At) { at.Spec.StartingDeadlineSeconds = &negative }, "spec.startingDeadlineSeconds",
		},
		"a name that is too long": {func(at *v1.At) { at.Name = strings.Repeat("a", 250) }, "249 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			at := &v1.At{
				ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: v1.AtSpec{
					Schedule: "2020-01-01T00:00:00Z", Command: []string{"true"},
				},
			}
			c.change(at)
			_, err := shared.Windlass.CnatV1().Ats(namespace).Create(t.Context(), at, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an Invalid error with %q", err, c.want)
			}
		})
	}
	if made := requests(t, namespace); len(made) > 0 {
		t.Errorf("the controller sent requests for rejected Ats: %v", made)
	}
}

func TestAPIServerRejectsPhaseReset(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "once", "echo Hello", nil)
	shared.InPhase(t, namespace, "once", v1.AtDone)
	for version, phase := range map[string]string{"v1": "Pending", "v1alpha1": "PENDING"} {
		_, err := shared.Kubectl(t.Context(), "", "patch", "-n", namespace,
			"ats."+version+".cnat.programming-kubernetes.info/once", "--subresource=status", "--type=merge",
			"-p", `{"status":{"phase":"`+phase+`"}}`)
		if err == nil || !strings.Contains(err.Error(), "phase only goes forward: "+phase) {
			t.Errorf("setting the phase to %s: got %v, want an error", phase, err)
		}
	}
}
