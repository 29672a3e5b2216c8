package database

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/postgresql"
)

func withMaxSize(size string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.Storage.MaxSize = ptr.To(resource.MustParse(size)) }
}

// usage returns what a server says about a volume whose file system has nearly the given size.
func usage(percent int32, size string) postgresql.VolumeUsage {
	return postgresql.VolumeUsage{Percent: percent, Bytes: ptr.To(resource.MustParse(size)).Value() / 100 * 97}
}

func TestVolumeGrowsBeforeItIsFull(t *testing.T) {
	noExpansion := apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "shop",
		fmt.Errorf("only dynamically provisioned pvc can be resized"))
	for name, c := range map[string]struct {
		size, maxSize string
		volume        postgresql.VolumeUsage
		rejection     error
		requested     string
		reason        string
		message       string
	}{
		"a volume that is less than four fifths full": {
			size: "10Gi", maxSize: "20Gi", volume: usage(0, "10Gi"), requested: "10Gi", reason: "Available",
		},
		"a volume that is four fifths full": {
			size: "10Gi", maxSize: "20Gi", volume: usage(80, "10Gi"), requested: "12Gi", reason: "Available",
		},
		"a volume whose growth is rounded up to GiB": {
			size: "1Gi", maxSize: "20Gi", volume: usage(80, "1Gi"), requested: "2Gi", reason: "Available",
		},
		"a volume that reaches maxSize": {
			size: "10Gi", maxSize: "11Gi", volume: usage(80, "10Gi"), requested: "11Gi", reason: "Available",
		},
		"a volume that is nearly full when it begins to grow": {
			size: "10Gi", maxSize: "20Gi", volume: usage(95, "10Gi"), requested: "12Gi", reason: "VolumeFilling",
			message: "at least 95 % of the volume of 10Gi are used. The volume grows from 10Gi to 12Gi.",
		},
		"a volume that is full when it begins to grow": {
			size: "10Gi", maxSize: "20Gi", volume: usage(100, "10Gi"), requested: "12Gi", reason: "VolumeFull",
			message: "The volume of 10Gi is full. Transactions are read-only by default until there is free space again. " +
				"The volume grows from 10Gi to 12Gi.",
		},
		"a volume that has reached maxSize": {
			size: "10Gi", maxSize: "10Gi", volume: usage(80, "10Gi"), requested: "10Gi", reason: "VolumeFilling",
			message: "The volume has reached storage.maxSize: increase storage.maxSize.",
		},
		"a volume without maxSize": {
			size: "10Gi", volume: usage(90, "10Gi"), requested: "10Gi", reason: "VolumeFilling",
			message: "Increase storage.size above 10Gi, or set storage.maxSize: the volume then grows by itself.",
		},
		"a full volume without maxSize": {
			size: "10Gi", volume: usage(100, "10Gi"), requested: "10Gi", reason: "VolumeFull",
			message: "A user can delete data in a session with SET default_transaction_read_only = off",
		},
		"a volume whose storage class does not allow growth": {
			size: "10Gi", maxSize: "20Gi", volume: usage(80, "10Gi"), rejection: noExpansion, requested: "10Gi",
			reason: "VolumeFilling", message: "The volume cannot grow: ",
		},
		"a volume on a file system with other data": {
			size: "10Gi", maxSize: "20Gi", volume: usage(80, "500Gi"), requested: "10Gi", reason: "VolumeFilling",
			message: "The volume does not grow by itself, because its file system has another size than the volume",
		},
		"a volume that has grown since the server measured it": {
			size: "12Gi", maxSize: "20Gi", volume: usage(80, "10Gi"), requested: "12Gi", reason: "Available",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, server := running(t, withSize(c.size), func(db *v1alpha1.Database) {
				if c.maxSize != "" {
					withMaxSize(c.maxSize)(db)
				}
			})
			server.seen.Volume = c.volume
			if c.rejection != nil {
				f.Kube.PrependReactor("patch", "persistentvolumeclaims",
					func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, c.rejection })
			}
			if c.maxSize == "" { // the operator does not watch the volume, but looks at the new settings
				f.Change(workMem("8MB"))
			}
			f.Reconcile()
			controllertest.Equal(t, "requested size", c.requested, claims.Requested(f.claim()).String())
			controllertest.Equal(t, "reason", c.reason, f.reason())
			if !strings.Contains(f.ready().Message, c.message) {
				t.Errorf("the message is %q, want a message with %q", f.ready().Message, c.message)
			}
			f.Clock.Step(readOften)
			writes := f.Reconcile().Writes
			if c.requested == c.size {
				controllertest.Equal(t, "writes at the next check", []string(nil), writes)
			}
		})
	}
}

// TestVolumeGrowsStepByStep fills a volume again after each growth.
func TestVolumeGrowsStepByStep(t *testing.T) {
	f, server := running(t, withSize("10Gi"), withMaxSize("16Gi"))
	for _, size := range []string{"10Gi", "12Gi", "15Gi", "16Gi"} {
		controllertest.Equal(t, "requested size", size, claims.Requested(f.claim()).String())
		server.seen.Volume = usage(0, size)
		f.Clock.Step(readOften)
		if writes := f.Reconcile().Writes; slices.Contains(writes, patchClaim) {
			t.Errorf("the writes while there is space are %q", writes)
		}
		server.seen.Volume = usage(80, size)
		f.Clock.Step(readOften)
		f.Reconcile()
		f.Clock.Step(readOften)
		controllertest.Equal(t, "writes while the volume grows", []string(nil), f.Reconcile().Writes)
		f.start() // the volume has grown
		f.Reconcile()
	}
	controllertest.Equal(t, "reason", "VolumeFilling", f.reason())
	controllertest.Equal(t, "size in the status", "16Gi", f.Object().Status.Storage.String())
}

// TestServerThatDoesNotStartOnFullVolumeGetsLargerVolume has a container that ended because the volume was full.
func TestServerThatDoesNotStartOnFullVolumeGetsLargerVolume(t *testing.T) {
	f := readyFixture(t, withSize("10Gi"), withMaxSize("20Gi"))
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 })
	f.Store(f.pod("", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name:  containerName,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: "The volume is full: 12 of 10485760 KiB are free. If",
		}},
	}}}))
	for _, advice := range []string{"The volume grows from 10Gi to 12Gi.", "The volume has just grown"} {
		f.Reconcile()
		controllertest.Equal(t, "requested size", "12Gi", claims.Requested(f.claim()).String())
		controllertest.Equal(t, "reason", "VolumeFull", f.reason())
		if !strings.Contains(f.ready().Message, advice) {
			t.Errorf("the message is %q, want a message with %q", f.ready().Message, advice)
		}
		f.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = c.Spec.Resources.Requests.DeepCopy() })
	}
}

// TestPreviousEndOnFullVolumeMakesNothingGrow has a container that runs, but is not ready. It ended once because the
// volume was full.
func TestPreviousEndOnFullVolumeMakesNothingGrow(t *testing.T) {
	f := readyFixture(t, withSize("10Gi"), withMaxSize("20Gi"))
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 })
	f.Store(f.pod("", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: containerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: "The volume is full: 12 of 10485760 KiB are free. If",
		}},
	}}}))
	f.Reconcile()
	controllertest.Equal(t, "requested size", "10Gi", claims.Requested(f.claim()).String())
}

// TestFullVolumeIsReportedAfterRestart has a full volume when the operator starts, and a server that does not respond.
// In the second case, the claim is being deleted too.
func TestFullVolumeIsReportedAfterRestart(t *testing.T) {
	f, server := running(t, withSize("10Gi"))
	server.seen.Volume = usage(100, "10Gi")
	f.Change(workMem("8MB"))
	f.Reconcile()
	controllertest.Equal(t, "reason", "VolumeFull", f.reason())
	f.Restart()
	server.err = postgresql.NewError(postgresql.Silent, "no response")
	f.Change(func(db *v1alpha1.Database) {
		db.Generation++
		withMaxSize("20Gi")(db)
	})
	f.Reconcile()
	if !strings.Contains(f.ready().Message, "The volume grows as soon as the operator can read how full it is") {
		t.Errorf("the message is %q", f.ready().Message)
	}
	f.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.NewTime(f.Clock.Now())) })
	f.Reconcile()
	controllertest.Equal(t, "reason with a claim that is being deleted", "VolumeDeleted", f.reason())
}

// TestServerThatAppliesSettingsIsNoFailure has a server that rejects the operator until it has the settings.
func TestServerThatAppliesSettingsIsNoFailure(t *testing.T) {
	f, server := running(t, withMaxSize("20Gi"))
	server.seen.Volume = usage(0, "1Gi")
	f.Reconcile()
	f.Change(workMem("8MB"))
	server.err = postgresql.NewError(postgresql.LoginRejected, "not yet")
	for range 5 {
		f.Clock.Step(lookAgain)
		f.Reconcile()
		controllertest.Equal(t, "reason", "Available", f.reason())
	}
}

func TestOperatorThatCannotReadVolumeSaysSo(t *testing.T) {
	for name, unknown := range map[string]func(*fakeServer){
		"the server does not respond": func(s *fakeServer) {
			s.err = postgresql.NewError(postgresql.Silent, "no response")
		},
		"the image has no program that measures the volume": func(s *fakeServer) {
			s.seen.Volume = postgresql.VolumeUsage{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, server := running(t, withMaxSize("20Gi"))
			known := usage(0, "1Gi")
			server.seen.Volume = known
			f.Reconcile()
			unknown(server)
			f.Clock.Step(readOften)
			first := f.Reconcile()
			controllertest.Equal(t, "reason after one failure", "Available", f.reason())
			controllertest.Equal(t, "time until the next attempt", readOften, first.Result.RequeueAfter)
			f.Clock.Step(readOften)
			second := f.Reconcile()
			controllertest.Equal(t, "reason after two failures", "VolumeNotObserved", f.reason())
			controllertest.Equal(t, "time until the next attempt", failedFactor*readOften, second.Result.RequeueAfter)
			server.err, server.seen.Volume = nil, known
			f.Clock.Step(failedFactor * readOften)
			f.Reconcile()
			controllertest.Equal(t, "reason after a success", "Available", f.reason())
		})
	}
}

// TestVolumeIsReadSeldomWithoutMaxSize reconciles a Database without maxSize every five minutes.
func TestVolumeIsReadSeldomWithoutMaxSize(t *testing.T) {
	f, server := running(t)
	server.seen.Volume = usage(0, "1Gi")
	looks := server.looks
	f.Clock.Step(resync)
	for range 12 {
		f.Clock.Step(5 * time.Minute)
		controllertest.Equal(t, "writes", []string(nil), f.Reconcile().Writes)
	}
	if got := server.looks - looks; got < 4 || got > 6 {
		t.Errorf("the operator connected %d times in an hour, want about once in each %v", got, resync)
	}
}

func TestNextSizeNeverExceedsLimit(t *testing.T) {
	for _, c := range []struct{ has, limit, next string }{
		{"100Mi", "10Gi", "1Gi"},
		{"1Gi", "10Gi", "2Gi"},
		{"10Gi", "10Gi", ""},
		{"11Gi", "10Gi", ""},
		{"10Gi", "10241Mi", "10241Mi"},
		{"5Gi", "6Gi", "6Gi"},
		{"7.9Ei", "8Ei", "8Ei"},
		{"1m", "1", "1"},
		{"1G", "3G", "2Gi"},
	} {
		next, possible := nextSize(resource.MustParse(c.has), ptr.To(resource.MustParse(c.limit)))
		if possible != (c.next != "") || possible && next.Cmp(resource.MustParse(c.next)) != 0 {
			t.Errorf("nextSize(%s, %s) = %s, %t, want %s", c.has, c.limit, &next, possible, c.next)
		}
	}
}

// TestFileSystemThatStaysSmallIsReported has a claim that is larger than the disk on which its directory is.
func TestFileSystemThatStaysSmallIsReported(t *testing.T) {
	f, server := running(t, withSize("500Gi"), withMaxSize("600Gi"))
	server.seen.Volume = usage(95, "100Gi")
	f.Reconcile()
	if !strings.Contains(f.ready().Message, "has just grown") {
		t.Errorf("the first message is %q", f.ready().Message)
	}
	for range settlingReadings {
		f.Clock.Step(readOften)
		f.Reconcile()
	}
	controllertest.Equal(t, "reason", "VolumeFilling", f.reason())
	if !strings.Contains(f.ready().Message, "increase storage.size above 500Gi") {
		t.Errorf("the message is %q", f.ready().Message)
	}
}

// TestVolumeGrowsDespiteOtherProblems has a server that does not apply a change of the settings, for example because it
// cannot write to the volume, and a spec.storage.size that a quota rejects.
func TestVolumeGrowsDespiteOtherProblems(t *testing.T) {
	f, server := running(t, withSize("10Gi"), withMaxSize("200Gi"))
	server.old, server.seen.Volume = true, usage(100, "10Gi")
	f.Kube.PrependReactor("patch", "persistentvolumeclaims", func(a k8stesting.Action) (bool, runtime.Object, error) {
		patch, ok := a.(k8stesting.PatchAction)
		return ok && strings.Contains(string(patch.GetPatch()), "100Gi"), nil,
			apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "shop", fmt.Errorf("exceeded quota"))
	})
	f.Change(workMem("8MB"))
	f.Reconcile()
	f.Clock.Step(settleTime)
	f.Change(func(db *v1alpha1.Database) {
		db.Generation++
		db.Spec.Storage.Size = resource.MustParse("100Gi")
	})
	f.Reconcile()
	for _, problem := range []string{"The volume of 10Gi is full", "PostgreSQL has not applied the changed settings"} {
		if !strings.Contains(f.ready().Message, problem) {
			t.Errorf("the message %q does not have %q", f.ready().Message, problem)
		}
	}
	controllertest.Equal(t, "requested size", "12Gi", claims.Requested(f.claim()).String())
}

// TestMaxSizeTakesEffectSoon sets maxSize while the next reading is due in ten minutes.
func TestMaxSizeTakesEffectSoon(t *testing.T) {
	f, server := running(t, withSize("10Gi"))
	server.seen.Volume = usage(80, "10Gi")
	f.Reconcile()
	f.Clock.Step(readOften)
	f.Change(func(db *v1alpha1.Database) {
		db.Generation++
		withMaxSize("20Gi")(db)
	})
	f.Reconcile()
	controllertest.Equal(t, "requested size", "12Gi", claims.Requested(f.claim()).String())
}

// TestBusyServerIsNoFailure has a server to which the operator may not connect now, because of other servers.
func TestBusyServerIsNoFailure(t *testing.T) {
	f, server := running(t, withMaxSize("20Gi"))
	server.seen.Volume = usage(0, "1Gi")
	f.Reconcile()
	server.err = postgresql.NewError(postgresql.Busy, "other servers do not respond")
	for range 5 {
		f.Clock.Step(readOften)
		f.Reconcile()
	}
	controllertest.Equal(t, "reason", "Available", f.reason())
}
