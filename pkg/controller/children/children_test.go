package children_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestEnsure(t *testing.T) {
	const (
		create = "create deployments port/boat"
		patch  = "patch deployments port/boat"
	)
	taken := func(whose string) string {
		text := "Deployment port/boat already exists and belongs to " + whose + ". Create this Ship under " +
			"another name. If nobody needs the Deployment, delete the Deployment instead."
		if whose == "nobody" {
			text += " This Ship can also adopt the Deployment, and then replaces the spec or data of the Deployment: for " +
				"this, set the annotation windlass.dev/adopt=Ship.example.com/boat on the Deployment."
		}
		return text
	}
	for name, c := range map[string]struct {
		want   *appsv1.Deployment
		cached *appsv1.Deployment // the child in the cache and on the server
		live   *appsv1.Deployment // the child on the server, if the cache lacks it
		reject map[string]error

		writes []string
		err    string
		ends   *appsv1.Deployment // the child on the server at the end, if there is one
	}{
		"creates a missing child":                     {want: want(), writes: []string{create}, ends: made(t)},
		"does not write a child in the desired state": {want: want(), cached: made(t), ends: made(t)},
		"keeps fields of other clients":               {want: want(), cached: made(t, byOthers), ends: made(t, byOthers)},
		"repairs drift in one write": {
			want: want(), cached: made(t, image("iron:1"), without("FLAG")), writes: []string{patch}, ends: made(t)},
		"repairs drift and keeps fields of other clients": {
			want: want(), cached: made(t, image("iron:1"), byOthers), writes: []string{patch}, ends: made(t, byOthers)},
		"removes fields that are no longer desired and keeps fields of others": {
			want: want(without("SAIL"), func(d *appsv1.Deployment) { d.Labels = nil }), cached: made(t, byOthers),
			writes: []string{patch},
			ends: made(t, byOthers, func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{
					{Name: "FLAG", Value: "blue"}, {Name: "INJECTED", Value: "yes"},
				}
				delete(d.Labels, "crew")
				d.Annotations[children.RecordAnnotation] = record(t,
					want(without("SAIL"), func(d *appsv1.Deployment) { d.Labels = nil }))
			}),
		},
		"keeps observed replicas that are no longer desired": {
			want: want(replicas(nil)), cached: made(t, replicas(ptr.To[int32](9))), writes: []string{patch},
			ends: made(t, replicas(ptr.To[int32](9)), func(d *appsv1.Deployment) {
				d.Annotations[children.RecordAnnotation] = record(t, want(replicas(nil)))
			}),
		},
		"reads a child that the cache lacks": {
			want: want(), live: made(t), writes: []string{create}, ends: made(t),
		},
		"restores the label of a child": {
			want: want(), live: made(t, unlabelled), writes: []string{create, patch}, ends: made(t),
		},
		"restores the owner reference of a child": {
			want: want(), cached: made(t, unowned), writes: []string{patch}, ends: made(t),
		},
		"does not write an object without an owner": {
			want: want(), live: made(t, foreign), writes: []string{create}, err: taken("nobody"), ends: made(t, foreign)},
		"does not write an object of another owner": {
			want: want(), cached: made(t, ownedBy("Job", "theirs", "x")), err: taken("Job theirs"),
			ends: made(t, ownedBy("Job", "theirs", "x"))},
		"does not write a child of an owner of another API group": {
			want: want(), cached: made(t, ownedBy("Ship", "boat", "x"), ofOtherGroup), err: taken("Ship boat"),
			ends: made(t, ownedBy("Ship", "boat", "x"), ofOtherGroup)},
		"waits for the child of an earlier owner": {
			want: want(), cached: made(t, ownedBy("Ship", "boat", "x")),
			err:  "Waiting for the deletion of Deployment boat, which belongs to a previous Ship of this name.",
			ends: made(t, ownedBy("Ship", "boat", "x"))},
		"waits for an object of another owner that is being deleted": {
			want: want(), live: made(t, foreign, going), writes: []string{create},
			err:  "Deployment boat is being deleted. The operator creates it again after the deletion.",
			ends: made(t, foreign, going)},
		"waits for a child that is being deleted": {
			want: want(), cached: made(t, going), err: "Deployment boat is being deleted. The operator creates it " +
				"again after the deletion.", ends: made(t, going)},
		"names the child that it could not create": {
			want: want(), reject: map[string]error{
				"create deployments": errors.New("no answer"),
			}, writes: []string{create}, err: "creating Deployment port/boat: no answer"},
		"names the child that it could not update": {
			want: want(), cached: made(t, image("iron:1")), reject: map[string]error{
				"patch deployments": errors.New("no answer"),
			}, writes: []string{patch},
			err: "updating Deployment port/boat: no answer", ends: made(t, image("iron:1"))},
		"names the child that it could not read": {
			want: want(), live: made(t), reject: map[string]error{
				"get deployments": errors.New("no answer"),
			}, writes: []string{create},
			err: "reading Deployment port/boat, which already exists: no answer", ends: made(t)},
	} {
		t.Run(name, func(t *testing.T) {
			var cached, live []*appsv1.Deployment
			if c.cached != nil {
				cached, live = append(cached, c.cached), append(live, c.cached)
			}
			if c.live != nil {
				live = append(live, c.live)
			}
			d := newDock(t, cached, live)
			for request, err := range c.reject {
				verb, resource, _ := strings.Cut(request, " ")
				d.journal.FailNext(verb, resource, err)
			}
			before := c.want.DeepCopy()
			_, err := d.Ensure(t.Context(), owner(), c.want, nil)
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error: wanted %q, got %v", c.err, err)
			}
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
			controllertest.Equal(t, "what was wanted, afterwards", before, c.want)
			controllertest.Equal(t, "the child", normal(c.ends), normal(d.live(t)))
		})
	}
}

func (d *dock) live(t *testing.T) *appsv1.Deployment {
	t.Helper()
	object, err := d.kube.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), "port", "boat")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return object.(*appsv1.Deployment)
}

// normal returns a copy of d without the fields that the server sets.
func normal(d *appsv1.Deployment) *appsv1.Deployment {
	if d == nil {
		return nil
	}
	d = d.DeepCopy()
	d.UID, d.ResourceVersion, d.ManagedFields, d.TypeMeta = "", "", nil, metav1.TypeMeta{}
	d.Spec.RevisionHistoryLimit = nil
	return d
}

// record returns the record of a child with the desired state want.
func record(t *testing.T, want *appsv1.Deployment) string {
	t.Helper()
	d := newDock(t, nil, nil)
	live, err := d.Ensure(t.Context(), owner(), want, nil)
	if err != nil {
		t.Fatal(err)
	}
	return live.Annotations[children.RecordAnnotation]
}

func TestEnsureAppliesInitialChangeOnlyOnCreation(t *testing.T) {
	d := newDock(t, nil, nil)
	live, err := d.Ensure(t.Context(), owner(), want(replicas(nil)), func(first *appsv1.Deployment) {
		first.Spec.Replicas = ptr.To[int32](3)
	})
	if err != nil || *live.Spec.Replicas != 3 {
		t.Fatalf("created with %v, %v", live.Spec.Replicas, err)
	}
	live.UID, live.ResourceVersion = "child-uid", "7"
	later := newDock(t, []*appsv1.Deployment{live}, []*appsv1.Deployment{live})
	if _, err := later.Ensure(t.Context(), owner(), want(replicas(nil)), nil); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", nil, later.journal.Writes())
}

func TestEnsureRecordsCreationInTracker(t *testing.T) {
	d := newDock(t, nil, nil)
	d.store.Set("5")
	d.kube.PrependReactor("create", "deployments", stamped("8"))
	if _, err := d.Ensure(t.Context(), owner(), want(), nil); err != nil {
		t.Fatal(err)
	}
	key := controller.Key{Namespace: "port", Name: "boat"}
	if d.tracker.Observed(key) == nil {
		t.Error("the write was not recorded")
	}
	d.store.Set("8")
	if err := d.tracker.Observed(key); err != nil {
		t.Error(err)
	}
}

// stamped returns a reaction that sets the resource version of a created object.
func stamped(version string) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject().DeepCopyObject()
		object.(metav1.Object).SetResourceVersion(version)
		return true, object, nil
	}
}

func TestPrune(t *testing.T) {
	const remove = "delete deployments port/boat"
	for name, c := range map[string]struct {
		cached *appsv1.Deployment
		reject error
		writes []string
		err    string
	}{
		"deletes a child":                               {cached: made(t), writes: []string{remove}},
		"does nothing without a child":                  {},
		"keeps an object of another owner":              {cached: made(t, ownedBy("Job", "theirs", "x"))},
		"keeps an object without an owner":              {cached: made(t, foreign)},
		"does not delete a child that is being deleted": {cached: made(t, going)},
		"waits for the event if the child does not exist any more": {
			cached: made(t), reject: apierrors.NewNotFound(appsv1.Resource("deployments"), "boat"), writes: []string{
				remove,
			}, err: controller.ErrDeletionNotObserved.Error(),
		},
		"names the child that it could not delete": {
			cached: made(t), reject: errors.New("no answer"), writes: []string{remove},
			err: "deleting Deployment port/boat: no answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var cached []*appsv1.Deployment
			if c.cached != nil {
				cached = append(cached, c.cached)
			}
			d := newDock(t, cached, cached)
			if c.reject != nil {
				d.journal.FailNext("delete", "deployments", c.reject)
			}
			err := d.Prune(t.Context(), owner(), "boat")
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error: wanted %q, got %v", c.err, err)
			}
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
		})
	}
}

func TestEnsureRestoresDataAndDoesNotRecordIt(t *testing.T) {
	kube := fake.NewClientset()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	secrets := children.Type[*corev1.Secret]{
		Resource: children.Resource[*corev1.Secret]{
			Kind: "Secret", Client: func(ns string) children.Client[*corev1.Secret] { return kube.CoreV1().Secrets(ns) },
		},
		Cache: children.CacheOf[*corev1.Secret](indexer), Tracker: controller.NewTracker(),
	}
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "boat"}, Data: map[string][]byte{
			"canary": []byte("tweet"), "b": []byte("b"),
		},
	}
	live, err := secrets.Ensure(t.Context(), owner(), wanted, nil)
	if err != nil {
		t.Fatal(err)
	}
	if record := live.Annotations[children.RecordAnnotation]; strings.Contains(record, "canary") {
		t.Errorf("the record holds data: %s", record)
	}
	live.UID, live.ResourceVersion = "child-uid", "7"
	for what, data := range map[string]map[string][]byte{
		"changed":  {"canary": []byte("tweet"), "b": []byte("changed"), "foreign": []byte("f")},
		"added to": {"canary": []byte("tweet"), "b": []byte("b"), "foreign": []byte("f")},
		"taken":    nil,
	} {
		live.Data = data
		if err := kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), live, "port"); err != nil {
			t.Fatal(err)
		}
		controllertest.Load(t, indexer, live)
		again, err := secrets.Ensure(t.Context(), owner(), wanted, nil)
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "data that was "+what, wanted.Data, again.Data)
	}
}

// TestEnsureLeavesDataOfImmutableConfigMap uses a policy that changes a label, and a cache without data.
func TestEnsureLeavesDataOfImmutableConfigMap(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		config := action.(clienttesting.CreateAction).GetObject().(*corev1.ConfigMap)
		config.UID, config.ResourceVersion, config.Labels["crew"] = "child-uid", "7", "five"
		return false, nil, nil
	})
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	configs := children.Type[*corev1.ConfigMap]{
		Resource: children.Resource[*corev1.ConfigMap]{
			Kind:   "ConfigMap",
			Client: func(ns string) children.Client[*corev1.ConfigMap] { return kube.CoreV1().ConfigMaps(ns) },
		},
		Cache: children.CacheOf[*corev1.ConfigMap](indexer), Tracker: controller.NewTracker(),
	}
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "boat", Labels: map[string]string{"crew": "one"}},
		Immutable:  ptr.To(true), Data: map[string]string{"a": "1"},
	}
	live, err := configs.Ensure(t.Context(), owner(), wanted, nil)
	if err != nil {
		t.Fatal(err)
	}
	live.Data = nil // as in the cache
	controllertest.Load(t, indexer, live)
	kube.ClearActions()
	if _, err := configs.Ensure(t.Context(), owner(), wanted, nil); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "requests", 0, len(kube.Actions()))
}

func TestEnsureDoesNotAdoptChildForDeletedOwner(t *testing.T) {
	going := owner()
	going.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	for name, c := range map[string]struct {
		live   metav1.Object
		writes []string
	}{
		"an owner that stays":            {live: owner(), writes: []string{"patch deployments port/boat"}},
		"an owner that is being deleted": {live: going},
	} {
		t.Run(name, func(t *testing.T) {
			orphan := made(t, unowned)
			d := newDock(t, []*appsv1.Deployment{orphan}, []*appsv1.Deployment{orphan})
			by := owner()
			by.Live = func() (metav1.Object, error) { return c.live, nil }
			_, err := d.Ensure(t.Context(), by, want(), nil)
			if (err == nil) != (c.writes != nil) {
				t.Errorf("got %v", err)
			}
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
		})
	}
}
