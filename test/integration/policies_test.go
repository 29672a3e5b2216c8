//go:build integration

package integration

import (
	"context"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/cnat/v1alpha1"
	"windlass.dev/windlass/pkg/webhook/conversion"
	"windlass.dev/windlass/test/framework"
)

// TestPoliciesPassTypeChecks checks the result of the type checks of the policies' expressions. The controller manager
// writes the result to the status of each policy.
func TestPoliciesPassTypeChecks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"windlass-platform-authors", "windlass-repeated-ats", "windlass-converted-ats"} {
		policies := shared.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
		framework.Eventually(t, "the types in "+name+" to be checked", func(ctx context.Context) (bool, error) {
			policy, err := policies.Get(ctx, name, metav1.GetOptions{})
			if err != nil || policy.Status.TypeChecking == nil {
				return false, err
			}
			for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", name, warning.FieldRef, warning.Warning)
			}
			return true, nil
		})
	}
}

// warnings has the warnings in the responses of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// newWarnings returns clients, and the warnings that they receive. It returns when the API server enforces the policy
// windlass-repeated-ats.
func newWarnings(t *testing.T, namespace string) (*framework.Clients, *warnings) {
	t.Helper()
	received := &warnings{}
	config := shared.Config()
	config.WarningHandler = received
	clients, err := framework.NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the API server to enforce the policy", func(ctx context.Context) (bool, error) {
		_, err := clients.Windlass.CnatV1().Ats(namespace).Create(ctx, later(withTTL), dryRun)
		return len(received.take()) > 0, err
	})
	return clients, received
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// later returns an At with a schedule in the year 2100.
func later(change func(*v1.AtSpec)) *v1.At {
	at := &v1.At{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec:       v1.AtSpec{Schedule: "2100-01-01T00:00:00Z", Command: []string{"true"}},
	}
	change(&at.Spec)
	return at
}

func withTTL(s *v1.AtSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](60) }

func withoutTTL(*v1.AtSpec) {}

// wantWarning checks that the only warning is about the At NAMESPACE/job or, if wanted is false, that there is no
// warning.
func wantWarning(t *testing.T, got []string, wanted bool, namespace string) {
	t.Helper()
	if !wanted {
		if len(got) > 0 {
			t.Errorf("warnings: %q, want none", got)
		}
		return
	}
	want := "At " + namespace + "/job is deleted 60 s after it is Done. " +
		"If a GitOps tool then applies it again, its command runs again."
	if len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("warnings: %q, want one with %q", got, want)
	}
}

func TestAtWarnsThatItRunsAgainWhenAppliedAgain(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	clients, received := newWarnings(t, namespace)
	ats := clients.Windlass.CnatV1().Ats(namespace)
	withDeadline := func(seconds int64) func(*v1.AtSpec) {
		return func(s *v1.AtSpec) { withTTL(s); s.StartingDeadlineSeconds = &seconds }
	}
	for name, c := range map[string]struct {
		change func(*v1.AtSpec)
		warns  bool
	}{
		"no ttlSecondsAfterFinished": {withoutTTL, false},
		"a deadline, but no ttlSecondsAfterFinished": {
			func(s *v1.AtSpec) { s.StartingDeadlineSeconds = ptr.To[int64](60) }, false,
		},
		"ttlSecondsAfterFinished without a deadline":      {withTTL, true},
		"a deadline of less than ttlSecondsAfterFinished": {withDeadline(59), false},
		"a deadline of ttlSecondsAfterFinished":           {withDeadline(60), true},
		"a deadline of more than ttlSecondsAfterFinished": {withDeadline(3600), true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ats.Create(t.Context(), later(c.change), dryRun); err != nil {
				t.Fatal(err)
			}
			wantWarning(t, received.take(), c.warns, namespace)
		})
	}
	t.Run("changes of an At", func(t *testing.T) {
		if _, err := ats.Create(t.Context(), later(withoutTTL), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			patch string
			warns bool
		}{{`{"spec":{"ttlSecondsAfterFinished":60}}`, true}, {`{"metadata":{"labels":{"changed":"yes"}}}`, false}} {
			_, err := ats.Patch(t.Context(), "job", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			wantWarning(t, received.take(), c.warns, namespace)
		}
		_, err := clients.Windlass.CnatV1alpha1().Ats(namespace).Patch(t.Context(), "job", types.MergePatchType,
			[]byte(`{"spec":{"schedule":"2100-01-02T00:00:00Z"}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("changing the At as v1alpha1: %v", err)
		}
		wantWarning(t, received.take(), true, namespace)
	})
}

// TestV1alpha1CannotChangeFieldsOfV1 writes Ats of v1alpha1 with an annotation whose fields the schema of v1 would
// reject.
func TestV1alpha1CannotChangeFieldsOfV1(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	ats, old := shared.Windlass.CnatV1().Ats(namespace), shared.Windlass.CnatV1alpha1().Ats(namespace)
	forged := &v1alpha1.At{
		ObjectMeta: metav1.ObjectMeta{Name: "forged", Annotations: map[string]string{
			conversion.Annotation: `{"spec":{"backoffLimit":-1}}`,
		}},
		Spec: v1alpha1.AtSpec{Schedule: "2100-01-01T00:00:00Z", Command: "true"},
	}
	rejected := func(err error) bool {
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "write the At as apiVersion")
	}
	framework.Eventually(t, "the API server to enforce the policy", func(ctx context.Context) (bool, error) {
		_, err := old.Create(ctx, forged, dryRun)
		if err != nil && !rejected(err) {
			return false, err
		}
		return err != nil, nil
	})
	stored := later(func(s *v1.AtSpec) { s.Image = "busybox:1" })
	if _, err := ats.Create(t.Context(), stored, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		patch    string
		rejected bool
	}{
		"other fields of v1":  {annotated(`"{\"spec\":{\"image\":\"busybox:2\"}}"`), true},
		"no fields of v1":     {annotated("null"), true},
		"a label":             {`{"metadata":{"labels":{"a":"b"}}}`, false},
		"a field of v1alpha1": {`{"spec":{"command":"false"}}`, false},
	} {
		_, err := old.Patch(t.Context(), stored.Name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
		if rejected(err) != c.rejected || !c.rejected && err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	read, err := old.Get(t.Context(), stored.Name, metav1.GetOptions{})
	if err != nil || read.Annotations[conversion.Annotation] == "" {
		t.Fatalf("the annotations of the At as v1alpha1 are %v: %v", read.Annotations, err)
	}
	read.Spec.Schedule = "2100-01-02T00:00:00Z"
	if _, err := old.Update(t.Context(), read, metav1.UpdateOptions{}); err != nil {
		t.Errorf("updating the At as it was read: %v", err)
	}
	at, err := ats.Get(t.Context(), stored.Name, metav1.GetOptions{})
	if err != nil || at.Spec.Image != "busybox:1" {
		t.Errorf("the image is %q: %v", at.Spec.Image, err)
	}
	if err := old.Delete(t.Context(), stored.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting the At as v1alpha1: %v", err)
	}
}

// annotated returns a patch of the annotation that carries the fields of v1. value is JSON.
func annotated(value string) string {
	return `{"metadata":{"annotations":{"` + conversion.Annotation + `":` + value + `}}}`
}

// TestAtAppliedAgainRunsAgainUnlessItsDeadlineHasPassed applies an At again after its deletion: an At with the warning,
// and an At with the deadline that the warning advises.
func TestAtAppliedAgainRunsAgainUnlessItsDeadlineHasPassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1.At)
		runs   int
	}{
		"without a deadline": {func(at *v1.At) { at.Spec.TTLSecondsAfterFinished = ptr.To[int32](0) }, 2},
		"with a deadline": {func(at *v1.At) {
			at.Spec.StartingDeadlineSeconds, at.Spec.TTLSecondsAfterFinished = ptr.To[int64](9), ptr.To[int32](10)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			clients, received := newWarnings(t, namespace)
			schedule := framework.Soon()
			for range 2 {
				clients.Create(t, namespace, "job", "true", func(at *v1.At) { at.Spec.Schedule = schedule; c.change(at) })
				if got := received.take(); (len(got) > 0) != (c.runs > 1) {
					t.Errorf("warnings: %q", got)
				}
				framework.Eventually(t, "the At to be deleted", func(ctx context.Context) (bool, error) {
					_, err := shared.Windlass.CnatV1().Ats(namespace).Get(ctx, "job", metav1.GetOptions{})
					return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
				})
			}
			pods := controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
				return r.ObjectRef.Namespace == namespace && r.ObjectRef.Resource == "pods" && r.Verb == "create"
			})
			if len(pods) != c.runs {
				t.Errorf("the command ran %d times, want %d", len(pods), c.runs)
			}
		})
	}
}
