package children_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// theirs returns a Deployment of somebody else with a sidecar, and with AdoptAnnotation for the owner called by.
func theirs(t *testing.T, by string, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	d := made(t, append([]func(*appsv1.Deployment){byOthers, func(d *appsv1.Deployment) {
		foreign(d)
		d.Annotations = map[string]string{children.AdoptAnnotation: by, "team": "four"}
		delete(d.Labels, controller.ManagedByLabel)
		ours(d).Image = "iron:1"
	}}, changes...)...)
	return d
}

func TestEnsureAdoptsOnlyObjectsThatNameTheOwner(t *testing.T) {
	const patch = "patch deployments port/boat"
	for name, c := range map[string]struct {
		live   *appsv1.Deployment
		err    string
		writes []string
	}{
		"an object that names the owner": {live: theirs(t, "Ship.example.com/boat"), writes: []string{patch}},
		"an object that names another owner": {
			live: theirs(t, "Ship.example.com/raft"), err: "set the annotation windlass.dev/adopt=Ship.example.com/boat",
		},
		"an object that names an owner of another kind": {live: theirs(t, "Ship/boat"), err: "belongs to nobody"},
		"an object that another object controls": {
			live: theirs(t, "Ship.example.com/boat", ownedBy("Job", "other", "x")), err: "belongs to Job other",
		},
		"an object that is being deleted": {
			live: theirs(t, "Ship.example.com/boat", going), err: "is being deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDock(t, []*appsv1.Deployment{c.live}, []*appsv1.Deployment{c.live})
			_, err := d.Ensure(t.Context(), owner(), want(), nil)
			controllertest.ErrorContains(t, c.err, err)
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
		})
	}
}

func TestAdoptionReplacesSpecAndKeepsMetadata(t *testing.T) {
	for outlives, containers := range map[bool]int{false: 1, true: 2} {
		live := []*appsv1.Deployment{theirs(t, "Ship.example.com/boat")}
		d := newDock(t, live, live)
		d.Outlives = outlives
		adopted, err := d.Ensure(t.Context(), owner(), want(), nil)
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "containers", containers, len(adopted.Spec.Template.Spec.Containers))
		for _, c := range adopted.Spec.Template.Spec.Containers {
			if c.Name == "deck" && c.Image != "wood:1" {
				t.Errorf("the image is %s", c.Image)
			}
		}
		if _, found := adopted.Annotations[children.AdoptAnnotation]; found || adopted.Annotations["team"] != "four" ||
			adopted.Annotations[children.RecordAnnotation] == "" {
			t.Errorf("the annotations are %v", adopted.Annotations)
		}
		controllertest.Equal(t, "label", "summer", adopted.Labels["season"])
		controllertest.Equal(t, "is controlled", !outlives, metav1.IsControlledBy(adopted, owner()))
		adopted.ResourceVersion = "8"
		controllertest.Load(t, d.cache, adopted)
		d.journal = controllertest.NewJournal(d.kube)
		if _, err := d.Ensure(t.Context(), owner(), want(), nil); err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "writes after the adoption", nil, d.journal.Writes())
	}
}

// TestMarkedChildGetsItsWholeSpecAgain removes a container that `kubectl rollout undo` has restored, with the
// annotations of the time before the adoption.
func TestMarkedChildGetsItsWholeSpecAgain(t *testing.T) {
	live := []*appsv1.Deployment{theirs(t, "Ship.example.com/boat", func(d *appsv1.Deployment) {
		d.OwnerReferences = made(t).OwnerReferences
	})}
	d := newDock(t, live, live)
	d.Adopt = func(
		context.Context, *appsv1.Deployment, *appsv1.Deployment, func(*appsv1.Deployment) (*appsv1.Deployment, error),
	) error {
		return errors.New("an own child is not adopted")
	}
	got, err := d.Ensure(t.Context(), owner(), want(), nil)
	controllertest.ErrorContains(t, "", err)
	controllertest.Equal(t, "containers", 1, len(got.Spec.Template.Spec.Containers))
	controllertest.Equal(t, "annotation", "", got.Annotations[children.AdoptAnnotation])
}

// TestQuotaDoesNotPreventAdoption rejects the creation of the Deployment, as the API server does for a used up quota.
func TestQuotaDoesNotPreventAdoption(t *testing.T) {
	full := apierrors.NewForbidden(appsv1.Resource("deployments"), "boat", errors.New("exceeded quota"))
	for by, problem := range map[string]string{"Ship.example.com/boat": "", "Ship.example.com/raft": "exceeded quota"} {
		d := newDock(t, nil, []*appsv1.Deployment{theirs(t, by)})
		d.journal.FailNext("create", "deployments", full)
		_, err := d.Ensure(t.Context(), owner(), want(), nil)
		controllertest.ErrorContains(t, problem, err)
	}
}

func TestDeletedOwnerAdoptsNothing(t *testing.T) {
	live := []*appsv1.Deployment{theirs(t, "Ship.example.com/boat")}
	d := newDock(t, live, live)
	gone := owner()
	gone.Live = func() (metav1.Object, error) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "ships"}, "boat")
	}
	_, err := d.Ensure(t.Context(), gone, want(), nil)
	if !errors.Is(err, controller.ErrDeletionNotObserved) {
		t.Errorf("the error is %v", err)
	}
	controllertest.Equal(t, "writes", nil, d.journal.Writes())
}

func TestAdoptMayTryAndPreventAdoption(t *testing.T) {
	live := []*appsv1.Deployment{theirs(t, "Ship.example.com/boat")}
	d := newDock(t, live, live)
	d.Adopt = func(
		_ context.Context, want, _ *appsv1.Deployment, try func(*appsv1.Deployment) (*appsv1.Deployment, error),
	) error {
		_, err := try(want)
		return errors.Join(err, errors.New("the crew objects"))
	}
	_, err := d.Ensure(t.Context(), owner(), want(), nil)
	controllertest.ErrorContains(t, "the crew objects", err)
	controllertest.Equal(t, "writes", []string{"dry-run patch deployments port/boat"}, d.journal.Writes())
}

func TestWaitToAdoptNamesWorkloadAndService(t *testing.T) {
	service := &metav1.ObjectMeta{Namespace: "port", Name: "boat"}
	controllertest.ErrorContains(t, "Waiting for Deployment port/boat to belong to this Ship and to be available. Then "+
		"the operator adopts Service port/boat.", owner().WaitToAdopt(service, "Deployment"))
}
