package app

import (
	"errors"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestFailedRolloutKeepsFilesOfPreviousPods(t *testing.T) {
	f := readyFixture(t, withFiles("good"))
	f.Change(withFiles("bad"))
	controllertest.Equal(t, "writes", []string{
		"create configmaps default/" + configName(f.Object()), patchDeployment, updateStatus,
	}, f.reconcile())
	controllertest.Equal(t, "ConfigMap of the new Pods", f.files("bad").Name, f.mounted())
	controllertest.Equal(t, "files of the previous Pods", map[string]string{"a.conf": "good"}, f.files("good").Data)
	f.Change(withFiles("good"))
	f.reconcile()
	controllertest.Equal(t, "ConfigMap after a rollback", f.files("good").Name, f.mounted())
}

func TestFilesCannotBeChanged(t *testing.T) {
	f := readyFixture(t, withFiles("1"))
	controllertest.Equal(t, "immutable", ptr.To(true), f.files("1").Immutable)
}

// mounting returns a Pod spec that mounts the files with a text.
func mounting(text string) corev1.PodSpec { return desiredPod(example(withFiles(text))) }

func TestPreviousFilesStayWhileSomethingNamesThem(t *testing.T) {
	meta := func(name, hash string) metav1.ObjectMeta {
		labels := selectorOf(example())
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}
	}
	set := func(text, hash string) runtime.Object {
		template := corev1.PodTemplateSpec{Spec: mounting(text)}
		return &appsv1.ReplicaSet{ObjectMeta: meta("web-"+hash, hash), Spec: appsv1.ReplicaSetSpec{Template: template}}
	}
	pod := func(text, hash string) runtime.Object {
		return &corev1.Pod{ObjectMeta: meta("web-"+hash+"-a", hash), Spec: mounting(text)}
	}
	for name, c := range map[string]struct {
		others []runtime.Object
		kept   bool
	}{
		"nothing names them":                         {[]runtime.Object{set("2", "b")}, false},
		"a ReplicaSet names them":                    {[]runtime.Object{set("1", "a"), set("2", "b")}, true},
		"a Pod without a ReplicaSet names them":      {[]runtime.Object{set("2", "b"), pod("1", "a")}, true},
		"neither a ReplicaSet nor a Pod exists":      {nil, false},
		"a ReplicaSet and a Pod name the files of 2": {[]runtime.Object{set("2", "b"), pod("2", "b")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, withFiles("1"))
			f.keepReplicaSets(0)
			f.Store(c.others...)
			f.Change(withFiles("2"))
			f.reconcile()
			controllertest.Equal(t, "whether the files stay during the rollout", true, f.files("1") != nil)
			f.rollOut()
			f.Clock.Step(previousRecheck)
			f.reconcile()
			controllertest.Equal(t, "whether the files stay after the rollout", c.kept, f.files("1") != nil)
			controllertest.Equal(t, "files of the Pods", map[string]string{"a.conf": "2"}, f.files("2").Data)
		})
	}
}

// keepReplicaSets sets the number of previous ReplicaSets that the Deployment keeps.
func (f fixture) keepReplicaSets(n int32) {
	f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n })
}

func TestFilesOfFailedRunsAreDeleted(t *testing.T) {
	f := rolledOutFixture(t, withFiles("1"))
	f.keepReplicaSets(1)
	for _, text := range []string{"2", "3", "4"} {
		f.Change(withFiles(text))
		f.reconcile()
		controllertest.Equal(t, "whether the files of the run exist", true, f.files(text) != nil)
		f.endRun(3, "")
		f.reconcile()
	}
	controllertest.Equal(t, "whether the files of the first failed run stay", false, f.files("2") != nil)
	controllertest.Equal(t, "whether the files of the Pods stay", true, f.files("1") != nil)
}

// previousFiles returns the fixture of an App whose files have changed n times. The Deployment keeps 3 ReplicaSets. No
// ReplicaSet exists.
func previousFiles(t *testing.T, n int) fixture {
	f := readyFixture(t, withFiles("0"))
	f.keepReplicaSets(3)
	for i := range n {
		f.Change(withFiles(strconv.Itoa(i + 1)))
		f.reconcile()
		f.rollOut()
	}
	return f
}

func TestReplicaSetsAreListedOnlyBeforeFilesAreDeleted(t *testing.T) {
	lists := func(f fixture) (n int) {
		for _, action := range f.Kube.Actions() {
			if action.Matches("list", "replicasets") {
				n++
			}
		}
		return n
	}
	f := previousFiles(t, 3)
	controllertest.Equal(t, "lists while there are not more contents than ReplicaSets", 0, lists(f))
	f = previousFiles(t, 4)
	f.reconcile()
	f.reconcile()
	controllertest.Equal(t, "lists when there is one content more", 1, lists(f))
	controllertest.Equal(t, "whether the oldest files stay", false, f.files("0") != nil)
	controllertest.Equal(t, "whether the files of the Pods stay", true, f.files("4") != nil)
}

func TestAppDoesNotDependOnDeletionOfPreviousFiles(t *testing.T) {
	f := previousFiles(t, 3)
	f.Kube.PrependReactor("list", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "replicasets"}, "", errors.New("no"))
	})
	f.Change(withFiles("4"))
	f.reconcile()
	f.rollOut()
	f.reconcile()
	controllertest.Equal(t, "phase", v1alpha1.AppReady, f.Object().Status.Phase)
	controllertest.Equal(t, "whether the oldest files stay", true, f.files("0") != nil)
}

func TestDeletionOfPreviousFilesDoesNotWaitForNewFiles(t *testing.T) {
	f := previousFiles(t, 4)
	f.Kube.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("quota"))
	})
	f.Change(withFiles("5"))
	f.Reconcile()
	controllertest.Equal(t, "whether the oldest files stay", false, f.files("0") != nil)
}
