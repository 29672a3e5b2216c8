package children_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// While the cache has not observed the deletion of an owner, a reconcile must not create children that
// garbage collection would delete.
func TestEnsureRecreatesChildOnlyForExistingOwner(t *testing.T) {
	const create = "create deployments port/boat"
	gone := apierrors.NewNotFound(appsv1.Resource("ships"), "boat")
	for name, c := range map[string]struct {
		observed int64
		outlives bool
		live     func(*ship)
		fails    error
		wait     bool
		err      string
		writes   []string
	}{
		"for a new owner without reading the owner": {
			fails: errors.New("nobody asks"), writes: []string{create},
		},
		"again if the owner exists":                                         {observed: 1, writes: []string{create}},
		"first creation of a child that outlives its owner reads the owner": {outlives: true, fails: gone, wait: true},
		"not if the owner is gone":                                          {observed: 1, fails: gone, wait: true},
		"not if the owner was replaced": {
			observed: 1, live: func(s *ship) { s.UID = "other" }, wait: true,
		},
		"not if the owner is being deleted": {
			observed: 1, live: func(s *ship) { s.DeletionTimestamp = &metav1.Time{} }, wait: true,
		},
		"not if the owner cannot be read": {
			observed: 1, fails: errors.New("no answer"), err: "reading Ship port/boat to confirm that it is not " +
				"being deleted: no answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, live := owner(), owner().Object.(*ship)
			*o.StatusObservedGeneration() = c.observed
			if c.live != nil {
				c.live(live)
			}
			o.Live = func() (metav1.Object, error) { return live, c.fails }
			d := newDock(t, nil, nil)
			d.Outlives = c.outlives
			_, err := d.Ensure(t.Context(), o, want(), nil)
			if c.wait != (err != nil && controller.Quiet(err)) || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Errorf("the error is %v", err)
			}
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
		})
	}
}
