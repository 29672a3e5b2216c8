package children_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestTryStoresNothing(t *testing.T) {
	const create, patch = "dry-run create deployments port/boat", "dry-run patch deployments port/boat"
	denied := apierrors.NewForbidden(appsv1.Resource("deployments"), "boat", errors.New("denied"))
	for name, c := range map[string]struct {
		live     []*appsv1.Deployment
		response error  // of the API server
		err      string // a part of the error
		writes   []string
	}{
		"a child that would be created":      {writes: []string{create}},
		"a child that would be changed":      {live: []*appsv1.Deployment{made(t, image("iron:1"))}, writes: []string{patch}},
		"a child in the desired state":       {live: []*appsv1.Deployment{made(t)}},
		"an object of somebody else":         {live: []*appsv1.Deployment{made(t, foreign)}, err: "already exists"},
		"a child that the API server denies": {response: denied, err: "denied", writes: []string{create}},
		"a webhook without dry runs": {
			response: apierrors.NewBadRequest(`admission webhook "a" does not support dry run`), writes: []string{create},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDock(t, c.live, c.live)
			d.store.Set("5")
			d.kube.PrependReactor("create", "deployments", stamped("8"))
			d.journal = controllertest.NewJournal(d.kube)
			if c.response != nil {
				d.journal.FailNext("create", "deployments", c.response)
			}
			controllertest.ErrorContains(t, c.err, d.Try(t.Context(), owner(), want(), nil))
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
			controllertest.ErrorContains(t, "", d.tracker.Observed(controller.Key{Namespace: "port", Name: "boat"}))
		})
	}
}
