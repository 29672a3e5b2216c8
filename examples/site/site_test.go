package site_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/examples/site"
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// server is a fake API server with one Site, and the client that replaces a generated clientset.
type server struct{ stored *site.Site }

func (s *server) copy() *site.Site { return s.stored.DeepCopyObject().(*site.Site) }

func (s *server) Get(context.Context, string, metav1.GetOptions) (*site.Site, error) {
	return s.copy(), nil
}

func (s *server) UpdateStatus(_ context.Context, changed *site.Site, _ metav1.UpdateOptions) (*site.Site, error) {
	s.stored.Status = changed.Status
	return s.copy(), nil
}

// Patch sets the finalizers.
func (s *server) Patch(
	_ context.Context, _ string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string,
) (*site.Site, error) {
	err := json.Unmarshal(patch, s.stored)
	return s.copy(), err
}

// fixture is a fake cluster with one Site.
type fixture struct {
	kube *kubefake.Clientset
	server
	registry string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{kube: kubefake.NewClientset()}
	f.kube.PrependReactor("create", "*", func(create ktesting.Action) (bool, runtime.Object, error) {
		child := create.(ktesting.CreateAction).GetObject().(metav1.Object)
		child.SetUID("child-uid")
		child.SetResourceVersion("1")
		return false, nil, nil
	})
	f.stored = &site.Site{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "docs", UID: "site-uid", ResourceVersion: "1", Generation: 1,
		},
		Spec: site.Spec{Image: "web:1", Files: map[string]string{"index.html": "hello"}, Host: "docs.example.com"},
	}
	return f
}

// reconcile reconciles the Site once. It returns the writes of children, and the error.
func (f *fixture) reconcile(t *testing.T) (writes []string, err error) {
	t.Helper()
	c := cluster.New(f.kube, metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), cluster.Options{
		ManagedBy: "site-operator", Groups: []string{site.GroupVersionKind.Group}, Limit: &budget.Budget{},
	})
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &site.Site{}, 0, cache.Indexers{}) // lister has the Site
	lister := func(string) controller.Lister[*site.Site] { return lister{f.copy()} }
	client := func(string) controller.Client[*site.Site] { return f }
	kind, err := site.Declare(c, site.API{Informer: informer, Lister: lister, Client: client}, f.registry)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer c.Shutdown()
	defer cancel()
	c.Start(ctx.Done())
	for _, owned := range kind.Owned {
		cache.WaitFor(ctx, "", owned.HasSyncedChecker())
	}
	journal := controllertest.NewJournal(f.kube)
	runtime := controller.Runtime{Events: &controllertest.Recorder{}, Clock: clocktesting.NewFakeClock(time.Now())}
	_, err = kind.Pipeline(runtime).Sync(ctx, controller.Key{Namespace: "default", Name: "docs"})
	return journal.Writes(), err
}

// lister is a lister of one Site.
type lister struct{ cached *site.Site }

func (l lister) Get(string) (*site.Site, error) { return l.cached, nil }

func TestSiteHasChildrenWithTheirNames(t *testing.T) {
	f := newFixture(t)
	writes, err := f.reconcile(t)
	controllertest.ErrorContains(t, "", err)
	want := []string{
		"create configmaps default/docs-files", "create deployments default/docs", "create services default/docs",
		"create ingresses default/docs",
	}
	controllertest.Equal(t, "writes", want, writes)
	controllertest.Equal(t, "finalizers", []string{"web.example.com/registry"}, f.stored.Finalizers)
	writes, err = f.reconcile(t)
	controllertest.ErrorContains(t, "", err)
	controllertest.Equal(t, "writes of the next reconcile", nil, writes)
}

func TestChangeOfSiteChangesOnlyItsChildren(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site.Spec)
		want   []string
	}{
		"new files": {
			func(s *site.Spec) { s.Files["index.html"] = "bye" }, []string{
				"patch configmaps default/docs-files", "patch deployments default/docs",
			},
		},
		"no host":      {func(s *site.Spec) { s.Host = "" }, []string{"delete ingresses default/docs"}},
		"another host": {func(s *site.Spec) { s.Host = "www.example.com" }, []string{"patch ingresses default/docs"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.reconcile(t)
			controllertest.ErrorContains(t, "", err)
			c.change(&f.stored.Spec)
			writes, err := f.reconcile(t)
			controllertest.ErrorContains(t, "", err)
			controllertest.Equal(t, "writes", c.want, writes)
		})
	}
}

func TestRejectedConfigMapDelaysOnlyDeployment(t *testing.T) {
	f := newFixture(t)
	f.kube.PrependReactor("create", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "docs-files", nil)
	})
	writes, err := f.reconcile(t)
	controllertest.ErrorContains(t, "creating ConfigMap default/docs-files", err)
	want := []string{
		"create configmaps default/docs-files", "create services default/docs", "create ingresses default/docs",
	}
	controllertest.Equal(t, "writes", want, writes)
}

func TestSiteIsReadyAfterRollout(t *testing.T) {
	f := newFixture(t)
	_, err := f.reconcile(t)
	controllertest.ErrorContains(t, "", err)
	d, err := f.kube.AppsV1().Deployments("default").Get(t.Context(), "docs", metav1.GetOptions{})
	controllertest.ErrorContains(t, "", err)
	d.ResourceVersion, d.Status = "2", appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	controllertest.ErrorContains(t, "", f.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"),
		d, "default"))
	_, err = f.reconcile(t)
	controllertest.ErrorContains(t, "", err)
	got := controllertest.Conditions(f.stored)
	if !slices.Contains(got, "Ready=True Available: The newest Pods are rolled out and available.") {
		t.Errorf("conditions: %q", got)
	}
}

func TestDeletionWaitsUntilRegistryForgetsSite(t *testing.T) {
	var calls []string
	answer := http.StatusInternalServerError
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.Method+" "+r.URL.Path)
		w.WriteHeader(answer)
	}))
	defer registry.Close()
	f := newFixture(t)
	f.registry = registry.URL
	_, err := f.reconcile(t)
	controllertest.ErrorContains(t, "", err)
	f.stored.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	_, err = f.reconcile(t)
	controllertest.ErrorContains(t, "removing Site default/docs from the registry: the registry responds 500", err)
	controllertest.Equal(t, "finalizers", []string{"web.example.com/registry"}, f.stored.Finalizers)
	answer = http.StatusNotFound
	_, err = f.reconcile(t)
	controllertest.ErrorContains(t, "", err)
	controllertest.Equal(t, "finalizers", 0, len(f.stored.Finalizers))
	controllertest.Equal(t, "requests", []string{"DELETE /default/docs", "DELETE /default/docs"}, calls)
}
