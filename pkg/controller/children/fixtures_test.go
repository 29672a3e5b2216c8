package children_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// ship is a kind that owns Deployments.
type ship struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	conditions []metav1.Condition
	observed   int64
}

func (s *ship) DeepCopyObject() runtime.Object        { c := *s; return &c }
func (s *ship) StatusConditions() *[]metav1.Condition { return &s.conditions }
func (s *ship) StatusObservedGeneration() *int64      { return &s.observed }
func (s *ship) GetObjectKind() schema.ObjectKind      { return &s.TypeMeta }

func owner() children.Owner {
	return children.Owner{
		Object: &ship{ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "boat", UID: "ship-uid"}},
		Kind:   schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Ship"},
	}
}

// dock is a server with Deployments, and the cache and the Type of these Deployments.
type dock struct {
	kube    *fake.Clientset
	cache   cache.Indexer
	journal *controllertest.Journal
	store   *controllertest.Store
	tracker *controller.Tracker
	children.Type[*appsv1.Deployment]
}

// lagging is a cache whose resource version a test sets in store.
type lagging struct {
	children.Cache[*appsv1.Deployment]
	store *controllertest.Store
}

func (l lagging) LastStoreSyncResourceVersion() string { return l.store.LastStoreSyncResourceVersion() }

func newDock(t *testing.T, cached, live []*appsv1.Deployment) *dock {
	t.Helper()
	d := &dock{
		kube: fake.NewClientset(), cache: packed.Indexer{
			Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		}, store: &controllertest.Store{}, tracker: controller.NewTracker(),
	}
	for _, object := range live {
		if err := d.kube.Tracker().Add(object.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Load(t, d.cache, cached...)
	d.journal = controllertest.NewJournal(d.kube)
	d.Type = children.Type[*appsv1.Deployment]{
		Resource: children.Resource[*appsv1.Deployment]{
			Kind: "Deployment", Client: func(ns string) children.Client[*appsv1.Deployment] {
				return d.kube.AppsV1().Deployments(ns)
			},
		},
		Cache: lagging{children.CacheOf[*appsv1.Deployment](d.cache), d.store}, Tracker: d.tracker, Yielded: [][]string{
			{"spec", "replicas"},
		},
	}
	return d
}

// want returns the desired Deployment with the given changes.
func want(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "boat", Labels: map[string]string{"crew": "four"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "deck", Image: "wood:1", Env: []corev1.EnvVar{{Name: "SAIL", Value: "white"}, {Name: "FLAG", Value: "blue"}},
			}}}},
		},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

// made returns the Deployment as the server has it after its creation and the given changes.
func made(t *testing.T, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	return madeOf(t, want(), changes...)
}

func madeOf(t *testing.T, want *appsv1.Deployment, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	d := newDock(t, nil, nil)
	live, err := d.Ensure(t.Context(), owner(), want, nil)
	if err != nil {
		t.Fatal(err)
	}
	live.UID, live.ResourceVersion = "child-uid", "7"
	live.Spec.RevisionHistoryLimit = ptr.To[int32](10) // a default of the server
	for _, change := range changes {
		change(live)
	}
	return live
}

func image(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n *int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = n }
}

func without(variable string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		env := &d.Spec.Template.Spec.Containers[0].Env
		for i, v := range *env {
			if v.Name == variable {
				*env = append((*env)[:i:i], (*env)[i+1:]...)
				return
			}
		}
	}
}

func ownedBy(kind, name string, uid types.UID) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "example.com/v1", Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)},
		}
	}
}

func foreign(d *appsv1.Deployment)    { d.OwnerReferences, d.Annotations = nil, nil }
func unowned(d *appsv1.Deployment)    { d.OwnerReferences = nil }
func unlabelled(d *appsv1.Deployment) { delete(d.Labels, controller.ManagedByLabel) }
func going(d *appsv1.Deployment)      { d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func ofOtherGroup(d *appsv1.Deployment) {
	d.OwnerReferences[0].APIVersion = "other.example.com/v1"
}

// byOthers makes changes of other clients that Ensure must keep.
func byOthers(d *appsv1.Deployment) {
	d.Annotations["deployment.kubernetes.io/revision"] = "3"
	d.Labels["season"] = "summer"
	d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "noon"}
	d.Spec.Template.Spec.Containers = append([]corev1.Container{
		{Name: "sidecar", Image: "proxy:1"},
	}, d.Spec.Template.Spec.Containers...)
	d.Spec.Template.Spec.Containers[1].ImagePullPolicy = corev1.PullAlways
	d.Spec.Template.Spec.Containers[1].Env = append(d.Spec.Template.Spec.Containers[1].Env, corev1.EnvVar{
		Name: "INJECTED", Value: "yes",
	})
}

// ours returns the desired container, which is the second one after byOthers.
func ours(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[1] }
