package database

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// blocked returns the status of a Pod whose container waits for a reason.
func blocked(reason string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
}

// crashed returns the status of a Pod whose container has ended before.
func crashed(now corev1.ContainerState, message string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: containerName, State: now,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}},
	}}}
}

func TestVerdict(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	isUp := appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 1, ReadyReplicas: 1}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	unplaced := func(since time.Duration) *corev1.PodStatus {
		return &corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room", LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}}
	}
	const starting = "Deploying Starting PostgreSQL is being started; if that lasts, see `kubectl describe sts/shop pod/shop-0 pvc/shop`."
	for name, c := range map[string]struct {
		set    appsv1.StatefulSetStatus
		pod    *corev1.PodStatus
		before string // the reason of Ready before
		want   string
		again  time.Duration
	}{
		"with a ready Pod of the newest template is Ready": {set: isUp, want: "Ready Available PostgreSQL takes connections."},
		"of which the StatefulSet is not seen yet is Deploying": {
			set: appsv1.StatefulSetStatus{ObservedGeneration: 1, UpdatedReplicas: 1, ReadyReplicas: 1}, pod: &corev1.PodStatus{}, want: starting},
		"with a ready Pod of an older template is Deploying": {
			set: appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 1}, pod: &corev1.PodStatus{}, want: starting},
		"without a Pod is Deploying":                                   {want: starting},
		"whose Pod has no place yet is Deploying, and looked at again": {pod: unplaced(20 * time.Second), want: starting, again: 40 * time.Second},
		"whose Pod has no place for a minute says so":                  {pod: unplaced(time.Minute), want: "Deploying Unschedulable no room"},
		"whose image cannot be pulled is Failed": {
			pod: new(blocked("ErrImagePull")), want: "Failed ImagePullBackOff The container does not start; see `kubectl describe pod shop-0`."},
		"whose container is being made is Deploying": {pod: new(blocked("ContainerCreating")), want: starting},
		"that crashes again and again is Failed, with what the start script says": {
			pod: new(crashed(waiting, "The volume has data of PostgreSQL 15.")), want: "Failed CrashLoopBackOff The volume has data of PostgreSQL 15. See `kubectl logs shop-0 --previous`."},
		"that crashes without a word is Failed": {
			pod: new(crashed(waiting, "")), want: "Failed CrashLoopBackOff PostgreSQL ended with exit code 1. See `kubectl logs shop-0 --previous`."},
		"that runs between two crashes is Failed": {
			pod: new(crashed(running, "")), before: "CrashLoopBackOff", want: "Failed CrashLoopBackOff PostgreSQL ended with exit code 1. See `kubectl logs shop-0 --previous`."},
		"that runs after its first crash is Deploying": {pod: new(crashed(running, "")), before: "Starting", want: starting},
	} {
		t.Run(name, func(t *testing.T) {
			db, claim := example(), &corev1.PersistentVolumeClaim{}
			conditions.False(&db.Status.Conditions, conditions.Ready, c.before, "")
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 2}, Status: c.set}
			var pod *corev1.Pod
			if c.pod != nil {
				pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-0"}, Status: *c.pod}
			}
			v := verdictOf(db, set, pod, claim, now)
			controllertest.Equal(t, "again", c.again, v.again)
			controllertest.Equal(t, "verdict", c.want, strings.Join([]string{string(v.phase), v.reason, v.message}, " "))
		})
	}
}

func TestAVolumeThatGrowsIsProgress(t *testing.T) {
	db, claim := example(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	setProgress(db, &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{UpdatedReplicas: 1, ReadyReplicas: 1}}, nil, claim, time.Now())
	controllertest.Equal(t, "conditions", []string{
		"Progressing=True StorageGrowing: The volume grows from 1Gi to 2Gi; see `kubectl describe pvc shop`.", "Ready=True Available: PostgreSQL takes connections.",
	}, controllertest.Conditions(db))
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, db.Status.Phase)
}

func TestThePodIsNotMisread(t *testing.T) {
	if strings.Contains(startScript, "$$") {
		t.Error("the kubelet would make one $ of two")
	}
	db := example(func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"search_path": `"$user", public`, "archive_command": "echo $(PGDATA)", "port": "1"}
	})
	controllertest.Equal(t, "arguments", []string{
		"-c", "archive_command=echo $$(PGDATA)", "-c", "port=1", "-c", `search_path="$$user", public`,
		"-c", "listen_addresses=*", "-c", "port=5432", "-c", "unix_socket_directories=/var/run/postgresql",
	}, serverArgs(db))
}

func TestADatabaseWhosePodCannotBeReadIsNotReady(t *testing.T) {
	w := up(t)
	w.forget()
	pipeline := w.fill()
	pipeline.Reconciler.(*reconciler).pod = func(string, string) (*corev1.Pod, error) { return nil, errors.New("the cache is broken") }
	_, err := pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"})
	controllertest.Equal(t, "error", "reading Pod default/shop-0 from the cache: the cache is broken", err.Error())
	controllertest.Equal(t, "phase", v1alpha1.DatabaseDeploying, w.db().Status.Phase)
	const message = "ReconcileError: reading Pod default/shop-0 from the cache: the cache is broken"
	controllertest.Equal(t, "conditions", []string{"Degraded=False AsExpected", "Progressing=True " + message, "Ready=False " + message}, controllertest.Conditions(w.db()))
}
