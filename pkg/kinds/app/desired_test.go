package app

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestDisruptionBudgetLetsPodsThatAreNotReadyBeEvicted(t *testing.T) {
	f := readyFixture(t, func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](2) })
	budget := kindtest.Get[*policyv1.PodDisruptionBudget](f.Cluster, "default", "web")
	policy := budget.Spec.UnhealthyPodEvictionPolicy
	controllertest.Equal(t, "policy for Pods that are not ready", ptr.To(policyv1.AlwaysAllow), policy)
}

func TestPodsWithoutReadinessProbeCountAfterSomeSeconds(t *testing.T) {
	withProbe := func(app *v1alpha1.App) { app.Spec.Probe = &v1alpha1.AppProbe{Path: "/"} }
	withoutProbe := func(app *v1alpha1.App) { app.Spec.Probe = nil }
	f := readyFixture(t)
	for _, step := range []struct {
		what    string
		change  func(*v1alpha1.App)
		seconds int32
	}{
		{"App without a probe", withoutProbe, 5},
		{"App that gets a probe", withProbe, 0},
		{"App that loses its probe", withoutProbe, 5},
	} {
		f.Change(step.change)
		if r := f.Reconcile(); r.Err != nil {
			t.Fatal(r.Err)
		}
		controllertest.Equal(t, "minReadySeconds of an "+step.what, step.seconds, f.deployment().Spec.MinReadySeconds)
	}
}
