package children_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestBeforeSeesChildBeforeItIsChanged checks when Before is called, and that its error prevents the change.
func TestBeforeSeesChildBeforeItIsChanged(t *testing.T) {
	rejected := errors.New("rejected")
	for name, c := range map[string]struct {
		live   []*appsv1.Deployment
		err    error
		seen   []string // the images of the children that Before is called with
		writes []string
	}{
		"a child that is created":      {writes: []string{"create deployments port/boat"}},
		"a child in the desired state": {live: []*appsv1.Deployment{made(t)}},
		"a child that is changed": {
			live: []*appsv1.Deployment{made(t, image("iron:1"))}, seen: []string{"iron:1"}, writes: []string{
				"patch deployments port/boat",
			},
		},
		"a child that must not change": {
			live: []*appsv1.Deployment{made(t, image("iron:1"))}, err: rejected, seen: []string{"iron:1"},
		},
		"a child of somebody else's ship": {live: []*appsv1.Deployment{made(t, image("iron:1"), foreign)}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDock(t, c.live, c.live)
			var seen []string
			d.Before = func(_ context.Context, live *appsv1.Deployment) error {
				seen = append(seen, live.Spec.Template.Spec.Containers[0].Image)
				return c.err
			}
			if _, err := d.Ensure(t.Context(), owner(), want(), nil); c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("the error is %v, want %v", err, c.err)
			}
			controllertest.Equal(t, "children that Before is called with", c.seen, seen)
			controllertest.Equal(t, "writes", c.writes, d.journal.Writes())
		})
	}
}
