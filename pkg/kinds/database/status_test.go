package database

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// blocked returns the status of a Pod whose container waits with the given reason.
func blocked(reason string) corev1.PodStatus {
	return corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{
			{
				Name: containerName, Image: "postgres:17", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: reason},
				},
			},
		},
	}
}

// crashed returns the status of a Pod whose container has the current state now, and a last termination state with exit
// code 1 and message.
func crashed(now corev1.ContainerState, message string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: containerName, State: now,
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message},
		},
	}}}
}

func TestSummaryOf(t *testing.T) {
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	unschedulable := func(since time.Duration) *corev1.PodStatus {
		return &corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room",
			LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}}
	}
	const starting = "Deploying Starting: PostgreSQL is starting. If it does not become ready, see `kubectl describe -n " +
		"default sts/shop pod/shop-0 pvc/shop`."
	const crashing = "Failed CrashLoopBackOff: PostgreSQL ended with exit code 1. See `kubectl logs -n default shop-0 " +
		"--previous`."
	for name, c := range map[string]struct {
		set    appsv1.StatefulSetStatus
		pod    *corev1.PodStatus
		before string // the reason of Ready before
		want   string // the phase, the reason and the message
		again  time.Duration
	}{
		"a Pod that is about to be replaced does not matter": {
			set: appsv1.StatefulSetStatus{ObservedGeneration: 1}, pod: new(blocked("ErrImagePull")), want: starting,
		},
		"a Database with a ready Pod of the newest template is Ready": {
			set:  appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 1, ReadyReplicas: 1},
			want: "Ready Available: PostgreSQL accepts connections.",
		},
		"a Database whose StatefulSet has an outdated status is Deploying": {
			set: appsv1.StatefulSetStatus{
				ObservedGeneration: 1, UpdatedReplicas: 1, ReadyReplicas: 1,
			}, pod: &corev1.PodStatus{}, want: starting,
		},
		"a Database with a ready Pod of an older template is Deploying": {
			set: appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1}, pod: &corev1.PodStatus{}, want: starting,
		},
		"a Database without a Pod is Deploying": {want: starting},
		"a Pod that is unschedulable for less than a minute is checked again": {
			pod: unschedulable(20 * time.Second), want: starting, again: 40 * time.Second,
		},
		"a Pod that is unschedulable for a minute is reported": {
			pod: unschedulable(time.Minute), want: "Deploying Unschedulable: Pod shop-0 does not start: the scheduler found " +
				"no node for the Pod. See `kubectl describe pod -n default shop-0`. The scheduler says: no room.",
		},
		"a Database whose image cannot be pulled is Failed": {
			pod: new(blocked("ErrImagePull")),
			want: "Failed ImagePullBackOff: Pod shop-0 does not start: the image postgres:17 cannot be pulled. See " +
				"`kubectl describe pod -n default shop-0`.",
		},
		"a Database whose container is being created is Deploying": {pod: new(blocked("ContainerCreating")), want: starting},
		"a Database that crashes repeatedly is Failed, with the message of the script": {
			pod: new(crashed(backOff, "The volume has data of PostgreSQL 15.")),
			want: "Failed CrashLoopBackOff: The volume has data of PostgreSQL 15. See `kubectl logs -n default shop-0 " +
				"--previous`.",
		},
		"a Database that crashes repeatedly without a message is Failed": {
			pod:  new(crashed(backOff, "")),
			want: crashing,
		},
		"a Database that runs between two crashes is Failed": {
			pod: new(crashed(running, "")), before: "CrashLoopBackOff",
			want: crashing,
		},
		"a Database that runs after its first crash is Deploying": {
			pod: new(crashed(running, "")), before: "Starting", want: starting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, claim := example(), &corev1.PersistentVolumeClaim{}
			conditions.False(&db.Status.Conditions, conditions.Ready, c.before, "")
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 2}, Status: c.set}
			set.Status.ObservedGeneration = cmp.Or(c.set.ObservedGeneration, 2)
			var pod *corev1.Pod
			if c.pod != nil {
				pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop-0"}, Status: *c.pod}
			}
			got, again := summaryOf(db, set, pod, claim, now)
			controllertest.Equal(t, "summary", c.want, fmt.Sprintf("%s %s: %s", phaseOf(got), got.Reason, got.Message))
			controllertest.Equal(t, "requeue after", c.again, again)
		})
	}
}

func TestGrowingVolumeSetsProgressing(t *testing.T) {
	db, claim := example(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
	}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	set := &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{UpdatedReplicas: 1, ReadyReplicas: 1}}
	setProgress(&scope{db: db, statefulSet: set, claim: claim}, time.Now())
	controllertest.Equal(t, "conditions", []string{
		"Progressing=True StorageGrowing: The volume grows from 1Gi to 2Gi. See `kubectl describe pvc -n default " +
			"shop`.", "Ready=True Available: PostgreSQL accepts connections.",
	}, controllertest.Conditions(db))
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, db.Status.Phase)
}

func TestPodThatCannotBeReadIsAnError(t *testing.T) {
	r := &reconciler{pod: func(string, string) (*corev1.Pod, error) { return nil, errors.New("the cache is broken") }}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
	err := r.server(t.Context(), &scope{db: example(), statefulSet: set})
	controllertest.Equal(t, "error", "reading Pod default/shop-0 from the cache: the cache is broken", fmt.Sprint(err))
}

// TestTimeOfSettingsIsRestored changes the recorded time of the last change of the settings, as another client. The
// operator restores it.
func TestTimeOfSettingsIsRestored(t *testing.T) {
	f := readyFixture(t)
	at := func() string {
		return kindtest.Get[*corev1.Secret](f.Cluster, "default", "shop-settings").Annotations[changedAnnotation]
	}
	before := at()
	for _, value := range []string{"theirs", "2001-01-01T00:00:00Z", ""} {
		kindtest.Change(f.Cluster, "default", "shop-settings", func(s *corev1.Secret) {
			s.Annotations[changedAnnotation] = value
		})
		r := f.Reconcile()
		controllertest.Equal(t, "writes", []string{patchSettings}, r.Writes)
		controllertest.Equal(t, "time", before, at())
	}
}
