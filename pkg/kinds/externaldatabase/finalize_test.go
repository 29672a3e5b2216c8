package externaldatabase

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/postgresql"
)

func TestADeletion(t *testing.T) {
	orphaned := func(db *v1alpha1.ExternalDatabase) {
		db.Finalizers = append(db.Finalizers, metav1.FinalizerOrphanDependents)
	}
	for name, c := range map[string]struct {
		db      *v1alpha1.ExternalDatabase
		without string // the name of a missing Secret
		broken  bool   // the connection Secret has no data
		orphan  bool   // the owner's Secret has no owner reference any more
		server  fakeServer
		live    func(*v1alpha1.ExternalDatabase) // the cache has not observed this yet
		asked   []string
		reason  string // why the deletion waits
	}{
		"deletes the database":                              {db: example(known, deleted), asked: []string{"delete", "close"}},
		"deletes one of which nobody knows more":            {db: example(deleted), asked: []string{"delete", "close"}},
		"retains it":                                        {db: example(known, deleted, retained)},
		"retains it, without the Secret":                    {db: example(known, deleted, retained), without: "server"},
		"retains it, if that was said at last":              {db: example(known, deleted), live: retained},
		"leaves it if it is orphaned":                       {db: example(known, deleted, orphaned)},
		"leaves it if it was orphaned":                      {db: example(known, deleted), orphan: true},
		"goes if nothing was made":                          {db: example(deleted), without: "both"},
		"waits without the Secret":                          {db: example(known, deleted), without: "server", reason: "DependencyMissing"},
		"waits without the Secret, and without the owner's": {db: example(known, deleted), without: "both", reason: "DependencyMissing"},
		"waits while the Secret cannot be used":             {db: example(known, deleted), broken: true, reason: "InvalidConnectionSecret"},
		"goes on without the owner's":                       {db: example(known, deleted), without: "shop-credentials", asked: []string{"delete", "close"}},
		"waits while the database cannot be deleted":        {db: example(known, deleted), server: fakeServer{del: errors.New("no")}, asked: []string{"delete", "close"}, reason: "ServerError"},
	} {
		t.Run(name, func(t *testing.T) {
			credentials := ours(t, example())
			if c.orphan {
				credentials.OwnerReferences = nil
			}
			connection := connectionSecret()
			if c.broken {
				connection.Data = nil
			}
			secrets := slices.DeleteFunc([]*corev1.Secret{connection, credentials}, func(s *corev1.Secret) bool { return c.without == "both" || c.without == s.Name })
			w := newWorld(t, &c.server, c.db, secrets...)
			if c.live != nil {
				live := c.db.DeepCopy()
				c.live(live)
				if err := w.windlass.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"), live, "default"); err != nil {
					t.Fatal(err)
				}
			}
			_, err := w.pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"})
			controllertest.Equal(t, "held", c.reason != "", err != nil)
			controllertest.Equal(t, "asked", c.asked, c.server.asked)
			if c.reason == "" {
				controllertest.Equal(t, "writes", []string{addFinalizer}, w.journal.Writes()) // here it removes the finalizer
				return
			}
			controllertest.Equal(t, "writes", []string{updateStatus}, w.journal.Writes())
			controllertest.Equal(t, "reason", c.reason, ready(w.db()).Reason)
			if !strings.Contains(ready(w.db()).Message, "Retain") {
				t.Errorf("it is not said how to let it go: %s", ready(w.db()).Message)
			}
		})
	}
}

func TestAConnectionIsForgottenWithTheLastThatNamesIt(t *testing.T) {
	before, elsewhere := example(known), example(known, func(db *v1alpha1.ExternalDatabase) { db.Spec.ConnectionSecretRef.Name = "other" })
	another := example(func(db *v1alpha1.ExternalDatabase) { db.Name = "another" })
	for name, c := range map[string]struct {
		now     []*v1alpha1.ExternalDatabase // the ExternalDatabases that exist
		happens func(cache.ResourceEventHandler)
		kept    bool
	}{
		"it is deleted":                     {nil, func(h cache.ResourceEventHandler) { h.OnDelete(before) }, false},
		"it is missing in a list":           {nil, func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: before}) }, false},
		"it names another":                  {[]*v1alpha1.ExternalDatabase{elsewhere}, func(h cache.ResourceEventHandler) { h.OnUpdate(before, elsewhere) }, false},
		"not if it still names it":          {[]*v1alpha1.ExternalDatabase{before}, func(h cache.ResourceEventHandler) { h.OnUpdate(before, before) }, true},
		"not if another does, of two":       {[]*v1alpha1.ExternalDatabase{another}, func(h cache.ResourceEventHandler) { h.OnDelete(before) }, true},
		"not if another does, when it ends": {[]*v1alpha1.ExternalDatabase{another, elsewhere}, func(h cache.ResourceEventHandler) { h.OnUpdate(before, elsewhere) }, true},
		"not by what is none":               {nil, func(h cache.ResourceEventHandler) { h.OnDelete("?"); h.OnUpdate("?", "?") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &fakeServer{found: postgresql.Found{ID: "1/2", Current: true}}, before, connectionSecret(), ours(t, example()))
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			objects := w.cluster.Own.Windlass().V1alpha1().ExternalDatabases().Informer()
			if err := objects.GetStore().Replace(nil, "9"); err != nil {
				t.Fatal(err)
			}
			controllertest.Load(t, objects.GetStore(), c.now...)
			c.happens(w.forgetful)
			_, kept := w.connections().last(connectionKey(before))
			controllertest.Equal(t, "is kept", c.kept, kept)
		})
	}
}

// TestCertificatesOfANamespaceAreKeptUpToALimit has Secrets of the maximum size.
func TestCertificatesOfANamespaceAreKeptUpToALimit(t *testing.T) {
	c := newConnections(nil, nil)
	for n := range 100 {
		for _, namespace := range []string{"a", "b"} {
			c.keep(controller.Key{Namespace: namespace, Name: fmt.Sprint(n)}, connection{settings: postgresql.Settings{CA: make([]byte, 190<<10)}})
		}
	}
	size := map[string]int{}
	for key, said := range c.read {
		size[key.Namespace] += len(said.settings.CA)
	}
	for namespace, size := range size {
		if size > maxKept {
			t.Errorf("%d bytes are kept of namespace %s", size, namespace)
		}
	}
	for _, namespace := range []string{"a", "b"} {
		if _, kept := c.last(controller.Key{Namespace: namespace, Name: "99"}); !kept {
			t.Errorf("what was read last in %s is not kept", namespace)
		}
	}
}

// TestADeletionGoesOnWithWhatWasRead deletes the Secrets first, as the deletion of a namespace can.
func TestADeletionGoesOnWithWhatWasRead(t *testing.T) {
	w := newWorld(t, &fakeServer{found: postgresql.Found{ID: "1/2", Current: true}}, example(known), connectionSecret(), ours(t, example()))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server", "shop-credentials"} {
		if err := w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "default", name); err != nil {
			t.Fatal(err)
		}
		if err := w.others.Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.cluster.Secrets().Informer.GetStore().Delete(ours(t, example())); err != nil {
		t.Fatal(err)
	}
	if err := w.windlass.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"), example(known, deleted), "default"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "asked", []string{"delete", "close"}, w.server.asked)
	controllertest.Equal(t, "host", "db.example.com", w.server.admin.Host)
	controllertest.Equal(t, "password", "", w.server.want.Password)
}

// TestOneAnswerThatItIsGoneDeletesNoDatabase has a 404 for an object that the cache has: the Secret may
// have been orphaned.
func TestOneAnswerThatItIsGoneDeletesNoDatabase(t *testing.T) {
	for _, resource := range []string{"externaldatabases", "secrets"} {
		w := newWorld(t, &fakeServer{}, example(known, deleted), connectionSecret(), ours(t, example()))
		w.journal.FailNext("get", resource, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "shop"))
		if _, err := w.pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"}); err == nil || w.server.asked != nil {
			t.Errorf("of %s that were said to be gone it said %v, and asked for %v", resource, err, w.server.asked)
		}
	}
}

func TestADeletionSaysWhatItCouldNotRead(t *testing.T) {
	for _, resource := range []string{"externaldatabases", "secrets"} {
		w := newWorld(t, &fakeServer{}, example(known, deleted), connectionSecret(), ours(t, example()))
		w.journal.FailNext("get", resource, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "shop", errors.New("no")))
		_, err := w.pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"})
		if !apierrors.IsForbidden(err) || w.server.asked != nil {
			t.Errorf("without reading %s it asked for %v, and said %v", resource, w.server.asked, err)
		}
	}
}
