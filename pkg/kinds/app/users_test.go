package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// rotated returns the Secret db-credentials with another content than the Secret of readyFixture, rotated at the given
// time.
func rotated(at time.Time) *corev1.Secret {
	s := secret("db-credentials")
	s.ResourceVersion, s.Data = "6", map[string][]byte{"uri": []byte("of the next generation")}
	s.Annotations = map[string]string{credentials.RotatedAtAnnotation: at.UTC().Format(time.RFC3339)}
	return s
}

// podUsing returns a Pod of App web that runs, with the digest of its inputs.
func podUsing(digest string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-1-a",
			Labels: map[string]string{
				"app.kubernetes.io/name": "app", appLabel: "web", "app.kubernetes.io/managed-by": "windlass",
			},
			Annotations: map[string]string{inputsDigestAnnotation: digest},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "rs-uid", Controller: ptr.To(true)},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// runningMigration returns the Pod that runs beforeRollout of App web since a time.
func runningMigration(since time.Time) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-before-rollout", CreationTimestamp: metav1.NewTime(since),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "windlass"},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestUsersOfPreviousContent(t *testing.T) {
	now := time.Now()
	digest := func(f fixture) string { return f.deployment().Spec.Template.Annotations[inputsDigestAnnotation] }
	rollOut := func(f fixture) { // the App observes the rotated Secret, and the Deployment replaces its Pods
		f.Store(rotated(now))
		f.Reconcile()
		f.rollOut()
	}
	scaledTo0 := func(d *appsv1.Deployment) {
		d.Spec.Replicas, d.Status = ptr.To[int32](0), appsv1.DeploymentStatus{ObservedGeneration: d.Generation + 1}
	}
	unseen := func(change func(*appsv1.Deployment)) func(fixture) { // Pods that are in no cache
		return func(f fixture) {
			rollOut(f)
			f.changeDeployment(change)
		}
	}
	user, none := []string{"App web"}, []string(nil)
	for name, c := range map[string]struct {
		changes []func(*v1alpha1.App)
		prepare func(fixture)
		want    []string
	}{
		"an App whose Deployment has not changed yet":     {prepare: func(f fixture) { f.Store(rotated(now)) }, want: user},
		"not an App whose Deployment has the new content": {prepare: rollOut, want: none},
		"a paused App": {prepare: func(f fixture) {
			f.Change(func(app *v1alpha1.App) { app.Annotations = map[string]string{"windlass.dev/paused": "true"} })
			rollOut(f)
		}, want: user},
		"not an App that is scaled to 0 and has no Pod": {prepare: func(f fixture) {
			f.changeDeployment(scaledTo0)
			f.Store(rotated(now))
		}, want: none},
		"an App that is scaled to 0 and has a Pod": {prepare: func(f fixture) {
			f.Store(podUsing(digest(f)))
			rollOut(f)
			f.changeDeployment(scaledTo0)
		}, want: user},
		"an App with a Pod of the previous template": {prepare: func(f fixture) {
			f.Store(podUsing(digest(f)))
			rollOut(f)
		}, want: user},
		"an App with a Pod of the previous template that is being deleted": {prepare: func(f fixture) {
			f.Store(podUsing(digest(f), func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }))
			rollOut(f)
		}, want: user},
		"not an App with a Pod of the previous template that has ended": {prepare: func(f fixture) {
			f.Store(podUsing(digest(f), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }))
			rollOut(f)
		}, want: none},
		"not an App with Pods of the new template": {prepare: func(f fixture) {
			rollOut(f)
			f.Store(podUsing(digest(f)))
		}, want: none},
		"an App that is scaled to 0 and still has Pods": {prepare: func(f fixture) {
			f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
			f.Store(rotated(now))
		}, want: user},
		"an App whose Deployment was not observed": {
			prepare: unseen(func(d *appsv1.Deployment) { d.Status.ObservedGeneration, d.Generation = 1, 2 }), want: user,
		},
		"an App whose Deployment has not replaced all Pods": {
			prepare: unseen(func(d *appsv1.Deployment) { d.Status.Replicas++ }), want: user,
		},
		"an App whose new Pods are not available": {
			prepare: unseen(func(d *appsv1.Deployment) { d.Status.UnavailableReplicas = 1 }), want: user,
		},
		"an App with Pods that are terminating": {
			prepare: unseen(func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = ptr.To[int32](1) }), want: user,
		},
		"not an App without a Deployment and Pods": {prepare: func(f fixture) { f.Remove(f.deployment()) }, want: none},
		"an App without a Deployment whose Pods are left": {prepare: func(f fixture) {
			f.Store(podUsing("any"))
			f.Remove(f.deployment())
		}, want: user},
		"an App whose Deployment lost its record": {prepare: func(f fixture) {
			rollOut(f)
			f.changeDeployment(func(d *appsv1.Deployment) { delete(d.Annotations, inputsAnnotation) })
		}, want: user},
		"an App whose template was edited": {prepare: func(f fixture) {
			rollOut(f)
			f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Annotations[inputsDigestAnnotation] = "theirs" })
		}, want: user},
		"an App that runs beforeRollout since before the rotation": {prepare: func(f fixture) {
			rollOut(f)
			f.Store(runningMigration(now.Add(-time.Hour)))
		}, want: user},
		"not an App that runs beforeRollout since after the rotation": {prepare: func(f fixture) {
			rollOut(f)
			f.Store(runningMigration(now.Add(time.Hour)))
		}, want: none},
		"an App that runs beforeRollout while the time of the rotation is unknown": {prepare: func(f fixture) {
			rollOut(f)
			f.Store(runningMigration(now.Add(time.Hour)))
			edited := rotated(now)
			edited.Annotations[credentials.RotatedAtAnnotation] = "theirs"
			f.Store(edited)
		}, want: user},
		"not an App that does not refer to the Secret": {changes: []func(*v1alpha1.App){
			func(app *v1alpha1.App) { app.Spec.DatabaseRef = nil },
		},
			prepare: func(f fixture) { f.Store(rotated(now)) }, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, append([]func(*v1alpha1.App){withDatabase}, c.changes...)...)
			c.prepare(f)
			users := newUsers(f.Cluster.Cluster, func(cache.SharedIndexInformer) bool { return true })
			f.Observe()
			controllertest.Equal(t, "users", c.want,
				users.OfPreviousContent(kindtest.Get[*corev1.Secret](f.Cluster, "default", "db-credentials")))
		})
	}
}

func TestUsersAreSorted(t *testing.T) {
	f := readyFixture(t, withDatabase)
	want := []string{"App web"}
	for i := range 20 {
		app := example(withDatabase)
		app.Name, app.UID = fmt.Sprintf("a%02d", i), types.UID(fmt.Sprint(i))
		f.Store(app, podUsing("previous", func(pod *corev1.Pod) {
			pod.Name, pod.Labels[appLabel] = app.Name+"-1-a", app.Name
			pod.OwnerReferences[0].Name = app.Name + "-1"
		}))
		want = append(want, "App "+app.Name)
	}
	f.Store(rotated(time.Now()))
	f.Observe()
	users := newUsers(f.Cluster.Cluster, func(cache.SharedIndexInformer) bool { return true })
	slices.Sort(want)
	controllertest.Equal(t, "users", want,
		users.OfPreviousContent(kindtest.Get[*corev1.Secret](f.Cluster, "default", "db-credentials")))
}

func TestUsersAreUnknownUntilCachesHaveSynced(t *testing.T) {
	f := readyFixture(t, withDatabase)
	users := NewUsers(f.Cluster.Cluster)
	controllertest.Equal(t, "users", []string{"the list of Apps"}, users.OfPreviousContent(secret("db-credentials")))
}

func TestUsersAreUnknownWithoutIndex(t *testing.T) {
	c := kindtest.NewCluster(t)
	users := newUsers(c.Cluster, func(cache.SharedIndexInformer) bool { return true })
	controllertest.Equal(t, "users", []string{"the list of Apps"}, users.OfPreviousContent(secret("db-credentials")))
}
