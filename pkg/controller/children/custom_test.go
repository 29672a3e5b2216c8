package children_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// custom returns a dock that handles Deployments as custom resources. The Deployments cached are in its
// cache and on its server.
func custom(t *testing.T, cached ...*appsv1.Deployment) *dock {
	t.Helper()
	d := newDock(t, cached, cached)
	d.Custom = true
	return d
}

// madeCustom returns a custom resource as the server has it after its creation and the given changes.
func madeCustom(t *testing.T, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	live, err := custom(t).Ensure(t.Context(), owner(), want(), nil)
	if err != nil {
		t.Fatal(err)
	}
	live.UID, live.ResourceVersion = "child-uid", "7"
	for _, change := range changes {
		change(live)
	}
	return live
}

// TestEnsureSaysWhatInstallsMissingType creates a child of a type that the API server lacks.
func TestEnsureSaysWhatInstallsMissingType(t *testing.T) {
	missing := apierrors.NewGenericServerResponse(http.StatusNotFound, "create", schema.GroupResource{
		Resource: "deployments",
	}, "", "404 page not found", 0, true)
	for provider, message := range map[string]string{
		"":         "creating Deployment port/boat: the server could not find the requested resource",
		"Boat API": "The cluster does not have the kind Deployment. Install Boat API, or remove the field",
	} {
		d := custom(t)
		d.Provider = provider
		d.journal.FailNext("create", "deployments", missing)
		_, err := d.Ensure(t.Context(), owner(), want(), nil)
		controllertest.ErrorContains(t, message, err)
	}
}

func TestEnsureRestoresSpecOfCustomResource(t *testing.T) {
	alsoTheirs := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "their-uid"}
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		writes int
	}{
		"nothing has changed":                 {func(*appsv1.Deployment) {}, 0},
		"a field was changed":                 {image("iron:1"), 1},
		"a field was removed":                 {replicas(nil), 1},
		"a field was added":                   {func(d *appsv1.Deployment) { d.Spec.Paused = true }, 1},
		"a label of the operator was removed": {unlabelled, 1},
		"the owner reference was removed":     {unowned, 1},
		"others have added labels":            {func(d *appsv1.Deployment) { d.Labels["season"] = "summer" }, 0},
		"others have added an annotation":     {func(d *appsv1.Deployment) { d.Annotations["season"] = "summer" }, 0},
		"others have added a finalizer": {
			func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/hold"} }, 0,
		},
		"others have added an owner": {
			func(d *appsv1.Deployment) { d.OwnerReferences = append(d.OwnerReferences, alsoTheirs) }, 0,
		},
		"others have added an owner before ours": {func(d *appsv1.Deployment) {
			d.OwnerReferences = append([]metav1.OwnerReference{alsoTheirs}, d.OwnerReferences...)
		}, 0},
		"the owner reference was changed": {
			func(d *appsv1.Deployment) { d.OwnerReferences[0].BlockOwnerDeletion = nil }, 1,
		},
		"the owner reference was replaced": {
			func(d *appsv1.Deployment) { d.OwnerReferences = []metav1.OwnerReference{alsoTheirs} }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := madeCustom(t, c.change)
			d := custom(t, live)
			got, err := d.Ensure(t.Context(), owner(), want(), nil)
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes", c.writes, len(d.journal.Writes()))
			for _, action := range d.kube.Actions() {
				controllertest.Equal(t, "type of the patch", types.MergePatchType,
					action.(clienttesting.PatchAction).GetPatchType())
			}
			controllertest.Equal(t, "spec", want().Spec, got.Spec)
			for _, theirs := range live.OwnerReferences {
				if theirs.UID == alsoTheirs.UID && len(got.OwnerReferences) != 2 {
					t.Errorf("the owners are %v", got.OwnerReferences)
				}
			}
			controllertest.Equal(t, "their finalizers", live.Finalizers, got.Finalizers)
			if !metav1.IsControlledBy(got, owner()) {
				t.Errorf("the owners are %v", got.OwnerReferences)
			}
		})
	}
}

func TestRecordOfCustomResourceHasNoSpec(t *testing.T) {
	live := madeCustom(t)
	record := live.Annotations[children.RecordAnnotation]
	if strings.Contains(record, "wood:1") || !strings.Contains(record, "ship-uid") {
		t.Errorf("the record is %s", record)
	}
}

func TestEnsureAdoptsReleasedChild(t *testing.T) {
	theirs := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "their-uid"}
	live := madeCustom(t, func(d *appsv1.Deployment) { d.OwnerReferences = append(d.OwnerReferences, theirs) })
	d := custom(t, live)
	released, err := d.Release(t.Context(), owner(), live)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "owners", []metav1.OwnerReference{theirs}, released.OwnerReferences)
	if !owner().Owns(released) {
		t.Error("it can not be taken back")
	}
	if _, err := d.Release(t.Context(), owner(), released); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{"patch deployments port/boat"}, d.journal.Writes())
	controllertest.Load(t, d.cache, released)
	back, err := d.Ensure(t.Context(), owner(), want(), nil)
	if err != nil || !metav1.IsControlledBy(back, owner()) {
		t.Errorf("the owners are %v (%v)", back.OwnerReferences, err)
	}
	if other := heir("Ship", "boat", "other-uid"); other.Owns(released) {
		t.Error("another owner of this name may take it")
	}
}

func TestRemoveDeletesOnlyObservedChildOfOwner(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		gone   bool
	}{
		"a child of the owner":          {func(*appsv1.Deployment) {}, true},
		"an object of another owner":    {ownedBy("Job", "theirs", "x"), false},
		"an object without an owner":    {foreign, false},
		"a child that is being deleted": {going, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := madeCustom(t, c.change)
			d := custom(t, live)
			if err := d.Remove(t.Context(), owner(), live); err != nil {
				t.Fatal(err)
			}
			var asked []*metav1.Preconditions
			for _, action := range d.kube.Actions() {
				if remove, ok := action.(clienttesting.DeleteAction); ok {
					asked = append(asked, remove.GetDeleteOptions().Preconditions)
					controllertest.Equal(t, "propagation", ptr.To(metav1.DeletePropagationForeground),
						remove.GetDeleteOptions().PropagationPolicy)
				}
			}
			controllertest.Equal(t, "is known to be deleted", c.gone, d.IsRemoved(owner(), live))
			if !c.gone {
				controllertest.Equal(t, "deletions", 0, len(asked))
				return
			}
			controllertest.Equal(t, "preconditions", []*metav1.Preconditions{
				{UID: ptr.To[types.UID]("child-uid"), ResourceVersion: ptr.To("7")},
			}, asked)
		})
	}
}

func TestReclaimKeepsSpecOfChild(t *testing.T) {
	for name, c := range map[string]struct {
		child *appsv1.Deployment
		taken bool
	}{
		"a released child":                    {madeCustom(t, image("iron:1"), unowned), false},
		"a released child with another owner": {madeCustom(t, ownedBy("Job", "theirs", "x")), true},
	} {
		t.Run(name, func(t *testing.T) {
			d := custom(t, c.child)
			back, err := d.Reclaim(t.Context(), owner(), c.child)
			if (err != nil) != c.taken {
				t.Fatal(err)
			}
			if !c.taken && (!metav1.IsControlledBy(back, owner()) || back.Spec.Template.Spec.Containers[0].Image != "iron:1") {
				t.Errorf("it is %v", back)
			}
		})
	}
}

func TestUnconfirmedChangeIsNotWritten(t *testing.T) {
	live := madeCustom(t, image("iron:1"))
	by := owner()
	by.Confirm = func(context.Context) error { return errors.New("the owner has changed") }
	for name, do := range map[string]func(d *dock) error{
		"a change":  func(d *dock) error { _, err := d.Ensure(t.Context(), by, want(), nil); return err },
		"a release": func(d *dock) error { _, err := d.Release(t.Context(), by, live); return err },
		"a removal": func(d *dock) error { return d.Remove(t.Context(), by, live) },
	} {
		d := custom(t, live)
		if err := do(d); err == nil || err.Error() != "the owner has changed" {
			t.Errorf("%s ended with %v", name, err)
		}
		controllertest.Equal(t, "writes of "+name, nil, d.journal.Writes())
	}
	d := custom(t)
	if _, err := d.Ensure(t.Context(), by, want(), nil); err != nil {
		t.Errorf("a creation ended with %v", err)
	}
}
