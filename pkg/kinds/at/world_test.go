package at

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	cnatfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	cnatlisters "windlass.dev/windlass/pkg/generated/listers/cnat/v1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world has a server that checks resource versions, caches whose content the test decides, and a
// controller that the test runs.
type world struct {
	t         *testing.T
	trim      bool // whether cached Pods go through pods.Trim
	kube      *kubefake.Clientset
	cnat      *cnatfake.Clientset
	ats, pods cache.Indexer
	clock     *clocktesting.FakePassiveClock
	journal   *controllertest.Journal
	events    *controllertest.Recorder
	gets      []string
	version   int
	kind      *reconciler
	pipeline  *controller.Pipeline[*v1.At]
}

func newWorld(t *testing.T, now time.Time, trim bool) *world {
	w := &world{
		t: t, trim: trim, version: 100,
		kube:   kubefake.NewSimpleClientset(),
		cnat:   cnatfake.NewSimpleClientset(),
		ats:    cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		pods:   cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		clock:  clocktesting.NewFakePassiveClock(now),
		events: &controllertest.Recorder{},
	}
	w.kube.PrependReactor("*", "*", w.serve(w.kube.Tracker()))
	w.cnat.PrependReactor("*", "*", w.serve(w.cnat.Tracker()))
	w.journal = controllertest.NewJournal(w.kube, w.cnat)
	w.kind = &reconciler{
		ats: w.cnat.CnatV1(), pods: w.kube.CoreV1(), cache: corelisters.NewPodLister(w.pods),
		store: &controllertest.Store{}, tracker: controller.NewTracker(), image: DefaultImage, clock: w.clock, starts: newStarts(), refusals: controller.NewRefusals[int64](w.clock),
	}
	lister := cnatlisters.NewAtLister(w.ats)
	w.pipeline = &controller.Pipeline[*v1.At]{
		Get:        func(key controller.Key) (*v1.At, error) { return lister.Ats(key.Namespace).Get(key.Name) },
		Client:     func(namespace string) controller.Client[*v1.At] { return w.cnat.CnatV1().Ats(namespace) },
		Store:      &controllertest.Store{},
		Reconciler: w.kind, Tracker: controller.NewTracker(), Events: w.events, Clock: w.clock,
	}
	return w
}

// serve does what an API server does and the fake one does not: it assigns UIDs and resource versions,
// and checks preconditions. A deletion must have both as preconditions.
func (w *world) serve(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource, namespace := action.GetResource(), action.GetNamespace()
		switch a := action.(type) {
		case clienttesting.GetActionImpl:
			w.gets = append(w.gets, fmt.Sprintf("get %s %s/%s", resource.Resource, namespace, a.Name))
		case clienttesting.CreateActionImpl:
			object := w.stamped(a.Object)
			return true, object, tracker.Create(resource, object, namespace)
		case clienttesting.UpdateActionImpl:
			sent, err := meta.Accessor(a.Object)
			if err == nil {
				err = check(tracker, action, sent.GetName(), sent.GetUID(), sent.GetResourceVersion())
			}
			if err != nil {
				return true, nil, err
			}
			object := w.stamped(a.Object)
			return true, object, tracker.Update(resource, object, namespace)
		case clienttesting.DeleteActionImpl:
			p := a.DeleteOptions.Preconditions
			if p == nil || p.UID == nil || p.ResourceVersion == nil {
				return true, nil, errors.New("a deletion that does not name a UID and a resource version")
			}
			if err := check(tracker, action, a.Name, *p.UID, *p.ResourceVersion); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	}
}

func check(tracker clienttesting.ObjectTracker, action clienttesting.Action, name string, uid types.UID, version string) error {
	live, err := tracker.Get(action.GetResource(), action.GetNamespace(), name)
	if err != nil {
		return err
	}
	object, err := meta.Accessor(live)
	if err == nil && (object.GetUID() != uid || object.GetResourceVersion() != version) {
		err = apierrors.NewConflict(action.GetResource().GroupResource(), name, errors.New("it is another one, or has changed"))
	}
	return err
}

// stamped returns a copy of an object with a UID and the next resource version.
func (w *world) stamped(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	if accessor, err := meta.Accessor(object); err == nil {
		w.version++
		accessor.SetResourceVersion(strconv.Itoa(w.version))
		if accessor.GetUID() == "" {
			accessor.SetUID(types.UID(fmt.Sprintf("uid-%d", w.version)))
		}
	}
	return object
}

// put adds objects to the server unchanged.
func (w *world) put(tracker clienttesting.ObjectTracker, objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := tracker.Add(object.DeepCopyObject()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// cachePods fills the cache of Pods like the informer, which selects them by label.
func (w *world) cachePods(some ...*corev1.Pod) {
	w.t.Helper()
	for _, p := range some {
		if p.Labels[controller.ManagedByLabel] != controller.ManagedByWindlass {
			continue
		}
		var object any = p
		if w.trim {
			var err error
			if object, err = pods.Trim(p); err != nil {
				w.t.Fatal(err)
			}
		}
		controllertest.Load(w.t, w.pods, object.(*corev1.Pod))
	}
}

// deliver updates the caches from the server, and reports whether they have changed.
func (w *world) deliver() bool {
	w.t.Helper()
	before := w.versions()
	for _, store := range []cache.Store{w.ats, w.pods} {
		if err := store.Replace(nil, ""); err != nil {
			w.t.Fatal(err)
		}
	}
	if at := w.at(); at != nil {
		controllertest.Load(w.t, w.ats, at)
	}
	w.cachePods(w.livePods()...)
	return !slices.Equal(before, w.versions())
}

func (w *world) versions() []string {
	var versions []string
	for _, object := range append(w.ats.List(), w.pods.List()...) {
		if accessor, err := meta.Accessor(object); err == nil {
			versions = append(versions, string(accessor.GetUID())+"/"+accessor.GetResourceVersion())
		}
	}
	return versions
}

func (w *world) livePods() []*corev1.Pod {
	w.t.Helper()
	list, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), "default")
	if err != nil {
		w.t.Fatal(err)
	}
	var pods []*corev1.Pod
	for i := range list.(*corev1.PodList).Items {
		pods = append(pods, &list.(*corev1.PodList).Items[i])
	}
	return pods
}

// at returns the At on the server, or nil.
func (w *world) at() *v1.At {
	w.t.Helper()
	live, err := w.cnat.Tracker().Get(v1.SchemeGroupVersion.WithResource("ats"), "default", "example")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return live.(*v1.At)
}

func (w *world) pass() (controller.Result, error) {
	return w.pipeline.Sync(w.t.Context(), controller.Key{Namespace: "default", Name: "example"})
}

// settle reconciles until nothing changes on the server, and returns the RequeueAfter of the last
// reconcile.
func (w *world) settle() time.Duration {
	w.t.Helper()
	w.deliver()
	for {
		result, err := w.pass()
		if err != nil {
			w.t.Fatal(err)
		}
		if !w.deliver() {
			return result.RequeueAfter
		}
	}
}

// summary returns a status without its conditions, in one line.
func summary(at *v1.At) string {
	if at == nil {
		return "gone"
	}
	s := at.Status
	words := []string{string(s.Phase)}
	for _, moment := range []struct {
		name string
		time *metav1.Time
	}{{"scheduled", s.ScheduledTime}, {"started", s.StartTime}, {"completed", s.CompletionTime}} {
		if moment.time != nil {
			words = append(words, moment.name+" "+moment.time.UTC().Format(time.TimeOnly))
		}
	}
	if s.PodName != "" {
		words = append(words, s.PodName)
	}
	if s.Failed != 0 {
		words = append(words, fmt.Sprintf("failed %d", s.Failed))
	}
	if s.ExitCode != nil {
		words = append(words, fmt.Sprintf("exit %d", *s.ExitCode))
	}
	return strings.Join(words, ", ")
}
