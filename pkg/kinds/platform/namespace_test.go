package platform

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestANamespaceThatIsGoneIsNotMadeAgain(t *testing.T) {
	had := func(uid string) func(*v1alpha1.Platform) {
		return func(p *v1alpha1.Platform) {
			p.Status.ObservedGeneration, p.Status.NamespaceUID = p.Generation, ptr.To(types.UID(uid))
		}
	}
	byAnEarlierVersion := func(p *v1alpha1.Platform) { p.Status.ObservedGeneration = p.Generation }
	create := []string{"create namespaces shops", "create apps shops/shop-web", status}
	for name, c := range map[string]struct {
		before func(*v1alpha1.Platform)
		// since is a change on the server that the cache has not observed.
		since  func(*v1alpha1.Platform)
		live   bool
		writes []string
		reason string
	}{
		"it is made at first":                                        {writes: create, reason: "ComponentsNotReady"},
		"it is made later if it could not be":                        {before: had(""), writes: create, reason: "ComponentsNotReady"},
		"it is not made once it was there":                           {before: had("uid-1"), writes: []string{status}, reason: "NamespaceGone"},
		"nor if the status does not say, since it is of before":      {before: byAnEarlierVersion, writes: []string{status}, reason: "NamespaceGone"},
		"nor by a cache that does not know yet that it was there":    {before: had(""), since: had("uid-1")},
		"one that is there, though not in the cache, is as it shall": {before: had("uid-1"), live: true, writes: []string{"create apps shops/shop-web", status}, reason: "ComponentsNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(app("web")))
			if c.before != nil {
				w.change(c.before)
			}
			if c.live {
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shops", UID: "uid-2"}}
				if err := w.kube.Tracker().Add(namespace); err != nil {
					t.Fatal(err)
				}
			}
			w.fill()
			if c.since != nil {
				w.change(c.since)
			}
			before := len(w.journal.Writes())
			_, _ = w.pipeline.Sync(t.Context(), key)
			controllertest.Equal(t, "writes", c.writes, w.journal.Writes()[before:])
			ready := condition(w.platform(), "Ready")
			if c.reason != "" && !strings.HasPrefix(ready, "False "+c.reason+":") {
				t.Errorf("Ready is %s", ready)
			}
			if c.reason == reasonGone {
				controllertest.Equal(t, "phase", v1alpha1.PlatformFailed, w.platform().Status.Phase)
			}
		})
	}
}

// TestANamespaceThatComesBackIsFilled has a namespace that somebody has created again.
func TestANamespaceThatComesBackIsFilled(t *testing.T) {
	w := newWorld(t, example(app("web")))
	w.change(func(p *v1alpha1.Platform) {
		p.Status.ObservedGeneration, p.Status.NamespaceUID = p.Generation, ptr.To[types.UID]("uid-1")
	})
	_, _ = w.pass()
	w.house(func(ns *metav1.PartialObjectMetadata) { ns.UID = "uid-2" })
	writes, err := w.pass()
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{"create apps shops/shop-web", status}, writes)
	controllertest.Equal(t, "namespace", "uid-2", string(*w.platform().Status.NamespaceUID))
}

func TestNamespacesOfOthersAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ namespace, ready string }{
		"of Kubernetes":   {"kube-system", "False NamespaceNotAllowed: namespace kube-system belongs to Kubernetes"},
		"of the operator": {"operators", "False NamespaceNotAllowed: namespace operators belongs to the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			platform := example(app("web"))
			platform.Spec.Namespace = c.namespace
			w := newWorld(t, platform)
			writes, _ := w.pass()
			controllertest.Equal(t, "writes", []string{status}, writes)
			if ready := condition(w.platform(), "Ready"); !strings.HasPrefix(ready, c.ready) {
				t.Errorf("Ready is %s", ready)
			}
			w.change(func(p *v1alpha1.Platform) { p.DeletionTimestamp = ptr.To(metav1.Now()) })
			writes, err := w.pass()
			controllertest.Equal(t, "writes of its deletion", []string{"patch platforms shop"}, writes)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
