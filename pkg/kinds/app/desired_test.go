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
