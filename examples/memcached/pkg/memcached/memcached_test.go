package memcached_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"

	"example.com/memcached/pkg/apis/cache/v1alpha1"
	"example.com/memcached/pkg/generated/clientset/versioned/fake"
	"example.com/memcached/pkg/generated/informers/externalversions"
	"example.com/memcached/pkg/memcached"
)

const (
	createService    = "create services default/sessions"
	createDeployment = "create deployments default/sessions"
	patchDeployment  = "patch deployments default/sessions"
	updateStatus     = "update memcacheds/status default/sessions"
)

// example returns a Memcached as the API server stores it.
func example() *v1alpha1.Memcached {
	return &v1alpha1.Memcached{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "sessions", UID: "memcached-uid", ResourceVersion: "1", Generation: 1,
		},
		Spec: v1alpha1.MemcachedSpec{Replicas: ptr.To[int32](2), Image: "memcached:1.6", MemoryMegabytes: 64},
	}
}

// withArguments returns an example that names the ConfigMap tuning.
func withArguments() *v1alpha1.Memcached {
	m := example()
	m.Spec.ArgumentsFrom = &corev1.LocalObjectReference{Name: "tuning"}
	return m
}

func tuning(arguments string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tuning", UID: "tuning-uid", ResourceVersion: "1"},
		Data:       map[string]string{"arguments": arguments},
	}
}

// rollOut sets the status that the controller of the Deployment sets after the rollout.
func rollOut(d *appsv1.Deployment) {
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
	}
}

func TestReconcile(t *testing.T) {
	for name, test := range map[string]struct {
		memcached *v1alpha1.Memcached
		configMap *corev1.ConfigMap
		// deployed is the Memcached for which an earlier reconcile created the children. After that reconcile,
		// change changes the Deployment.
		deployed *v1alpha1.Memcached
		change   func(*appsv1.Deployment)

		writes []string
		ready  string
		args   []string
	}{
		"creates the children": {
			memcached: example(),
			writes:    []string{createService, createDeployment, updateStatus},
			ready:     "Ready=False RollingOut: The newest Pods are being rolled out.",
			args:      []string{"--memory-limit=64"},
		},
		"is Ready once the Pods are": {
			memcached: example(), deployed: example(), change: rollOut,
			writes: []string{updateStatus},
			ready:  "Ready=True Available: The newest Pods are rolled out and available.",
			args:   []string{"--memory-limit=64"},
		},
		"scales the Deployment": {
			memcached: func() *v1alpha1.Memcached { m := example(); m.Spec.Replicas = ptr.To[int32](3); return m }(),
			deployed:  example(), change: rollOut,
			writes: []string{patchDeployment, updateStatus},
			ready:  "Ready=False RollingOut: The newest Pods are being rolled out.",
			args:   []string{"--memory-limit=64"},
		},
		"repairs drift": {
			memcached: example(), deployed: example(),
			change: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Args = []string{"--verbose"} },
			writes: []string{patchDeployment, updateStatus},
			ready:  "Ready=False RollingOut: The newest Pods are being rolled out.",
			args:   []string{"--memory-limit=64"},
		},
		"waits for the ConfigMap": {
			memcached: withArguments(),
			writes:    []string{updateStatus},
			ready:     "Ready=False DependencyMissing: Waiting for ConfigMap tuning, which the spec names, to be created.",
		},
		"passes the arguments in the ConfigMap": {
			memcached: withArguments(), configMap: tuning("--conn-limit=512\n  --threads=2"),
			writes: []string{createService, createDeployment, updateStatus},
			ready:  "Ready=False RollingOut: The newest Pods are being rolled out.",
			args:   []string{"--memory-limit=64", "--conn-limit=512", "--threads=2"},
		},
		"replaces the Pods when the arguments change": {
			memcached: withArguments(), configMap: tuning("--threads=4"), deployed: example(),
			change: func(*appsv1.Deployment) {},
			writes: []string{patchDeployment, updateStatus},
			ready:  "Ready=False RollingOut: The newest Pods are being rolled out.",
			args:   []string{"--memory-limit=64", "--threads=4"},
		},
		"rejects arguments that are too long": {
			memcached: withArguments(), configMap: tuning(strings.Repeat("x", 4097)),
			writes: []string{updateStatus},
			ready:  "Ready=False ReconcileError: the arguments in ConfigMap tuning have more than 4096 bytes: shorten them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.configMap)
			if test.deployed != nil {
				f.reconcile(t, test.deployed)
				f.changeDeployment(t, test.change)
			}
			m, writes := f.reconcile(t, test.memcached)
			controllertest.Equal(t, "writes", test.writes, writes)
			if conditions := controllertest.Conditions(m); !slices.Contains(conditions, test.ready) {
				t.Errorf("conditions: wanted %q, got %q", test.ready, conditions)
			}
			controllertest.Equal(t, "arguments", test.args, f.arguments(t))
			if _, writes := f.reconcile(t, m); len(writes) > 0 {
				t.Errorf("the next reconcile, which has nothing to do, wrote %q", writes)
			}
		})
	}
}

// fixture is a fake cluster.
type fixture struct {
	kube     *kubefake.Clientset
	metadata *metadatafake.FakeMetadataClient
}

func newFixture(t *testing.T, configMap *corev1.ConfigMap) *fixture {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &fixture{kubefake.NewClientset(), metadatafake.NewSimpleMetadataClient(scheme)}
	if configMap != nil {
		err1 := f.kube.Tracker().Add(configMap)
		err2 := f.metadata.Tracker().Add(&metav1.PartialObjectMetadata{
			TypeMeta: configMap.TypeMeta, ObjectMeta: configMap.ObjectMeta,
		})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
	}
	return f
}

// reconcile reconciles a Memcached once. It returns the stored Memcached and the writes of the reconcile.
func (f *fixture) reconcile(t *testing.T, m *v1alpha1.Memcached) (*v1alpha1.Memcached, []string) {
	t.Helper()
	client := fake.NewSimpleClientset(m)
	c := cluster.New(f.kube, f.metadata, cluster.Options{
		ManagedBy: "memcached-operator", Groups: []string{v1alpha1.GroupName}, Limit: &budget.Budget{},
	})
	own := externalversions.NewSharedInformerFactory(client, 0)
	kind, err := memcached.Declare(c, client, own)
	if err != nil {
		t.Fatal(err)
	}
	journal := controllertest.NewJournal(f.kube, client)
	runtime := controller.Runtime{Events: &controllertest.Recorder{}, Clock: clocktesting.NewFakeClock(time.Now())}
	// The conditions contain the error.
	_, _ = controllertest.Reconcile(t, kind, runtime, controller.Key{Namespace: m.Namespace, Name: m.Name}, c, own)
	m, err = client.CacheV1alpha1().Memcacheds(m.Namespace).Get(t.Context(), m.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m, journal.Writes()
}

func (f *fixture) changeDeployment(t *testing.T, change func(*appsv1.Deployment)) {
	t.Helper()
	deployments := f.kube.AppsV1().Deployments("default")
	d, err := deployments.Get(t.Context(), "sessions", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.ResourceVersion = "2"
	change(d)
	if err := f.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), d, "default"); err != nil {
		t.Fatal(err)
	}
}

// arguments returns the arguments of the container, or nil without a Deployment.
func (f *fixture) arguments(t *testing.T) []string {
	t.Helper()
	list, err := f.kube.AppsV1().Deployments("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		return d.Spec.Template.Spec.Containers[0].Args
	}
	return nil
}
