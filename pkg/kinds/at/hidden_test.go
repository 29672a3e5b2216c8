package at

import (
	"testing"
	"time"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// hiddenFixture returns an At that runs its command in a Pod whose labels a policy changes whenever they are written.
func hiddenFixture(t *testing.T) fixture {
	f := newFixtureAtNoon(t, withBackoffLimit(1))
	f.RelabelPods()
	f.Reconcile() // sets the phase
	r := f.Reconcile()
	controllertest.Equal(t, "writes of a start", []string{createPod, patchPod}, r.Writes)
	controllertest.Equal(t, "RequeueAfter", 30*time.Second, r.Result.RequeueAfter)
	controllertest.Equal(t, "RequeueAfter later", 30*time.Second, f.settle())
	return f
}

func TestPodThatPolicyHidesIsReadFromTheServer(t *testing.T) {
	f := hiddenFixture(t)
	r := f.Reconcile()
	controllertest.Equal(t, "reads", []string{getPod}, r.Reads)
	controllertest.Equal(t, "writes", 0, len(r.Writes))
	f.Clock.SetTime(noon.Add(time.Minute))
	f.exit(0)
	f.settle()
	controllertest.Equal(t, "conditions", completeConditions(exit0Message), controllertest.Conditions(f.Object()))
	controllertest.Equal(t, "finalizers of the Pod", 0, len(f.onlyPod().Finalizers))
	controllertest.Equal(t, "reads after that", []string(nil), f.Reconcile().Reads)
}

func TestPodThatPolicyHidesIsReleasedAfterRestart(t *testing.T) {
	f := hiddenFixture(t)
	f.Restart()
	f.exit(0)
	f.settle()
	controllertest.Equal(t, "conditions", completeConditions(exit0Message), controllertest.Conditions(f.Object()))
	controllertest.Equal(t, "finalizers of the Pod", 0, len(f.onlyPod().Finalizers))
}

func TestPodThatPolicyHidesIsRetried(t *testing.T) {
	f := hiddenFixture(t)
	for range 2 {
		f.exit(1)
		f.settle()
		f.Clock.SetTime(f.Clock.Now().Add(time.Hour))
		f.settle()
	}
	controllertest.Equal(t, "failed commands", 2, f.Object().Status.Failed)
	controllertest.Equal(t, "finalizers of the Pod", 0, len(f.onlyPod().Finalizers))
}

func TestPodThatPolicyHidesIsReleasedAfterItsAtWasDeleted(t *testing.T) {
	f := hiddenFixture(t)
	f.deletePodOf()
	f.Remove(f.Object())
	r := f.Reconcile()
	controllertest.Equal(t, "reads", []string{getPod, getAt}, r.Reads)
	controllertest.Equal(t, "writes", []string{patchPod}, r.Writes)
	controllertest.Equal(t, "Pods", 0, f.podCount())
	controllertest.Equal(t, "reads after that", []string(nil), f.Reconcile().Reads)
}
