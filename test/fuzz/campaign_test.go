//go:build integration

package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// tenants is the number of namespaces in which the test creates objects.
const tenants = 4

// creators is the number of objects that the test creates concurrently.
const creators = 6

// campaign is the state of one run of the test.
type campaign struct {
	*framework.Installation
	controller   *framework.Process
	server       *postgres.Server
	kinds        []Kind
	tenants      map[string]*framework.Tenant // by namespace
	admin        dynamic.Interface
	surroundings Surroundings
	log          *os.File
	verbose      bool

	next  map[string]int                          // the number of the next object, by kind
	alive map[string][]*unstructured.Unstructured // the current batch, by kind

	mu       sync.Mutex
	accepted map[string]int
	rejected map[string]int
	reasons  map[string]int // the number of rejected objects, by reason

	rounds     int
	reconciles map[string]int // the number of reconciles since the last batch was created, by object
	canary     string         // the namespace of the newest canaries
	heap       int64          // the heap of the controller after the first canaries, in bytes
}

func newCampaign(t *testing.T) *campaign {
	t.Helper()
	c := &campaign{
		Installation: framework.Own(t), tenants: map[string]*framework.Tenant{}, reconciles: map[string]int{},
		next: map[string]int{}, alive: map[string][]*unstructured.Unstructured{},
		accepted: map[string]int{}, rejected: map[string]int{}, reasons: map[string]int{},
	}
	root, err := framework.Root()
	if err == nil {
		c.kinds, err = ReadKinds(filepath.Join(root, "artifacts", "crds"))
	}
	if err == nil {
		c.log, err = os.Create(filepath.Join(root, "bin", "fuzz-controller.log"))
	}
	if err == nil {
		c.admin, err = dynamic.NewForConfig(c.Config())
	}
	if err == nil {
		c.server, err = postgres.NewServer(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.server.Remove)
	c.controller = framework.Launch(t, c.Cluster, "--pprof", "--logging-format=json",
		"--external-database-allowed-hosts=127.0.0.0/8")
	t.Cleanup(func() {
		if _, err := c.log.Write(c.controller.Log.Take()); err != nil {
			t.Errorf("writing the controller's log: %v", err)
		}
		if t.Failed() {
			c.describe(t)
		}
	})
	c.limitVolumes(t)
	for range tenants {
		tenant := c.NewTenant(t)
		c.createReferences(t, tenant.Namespace)
		c.tenants[tenant.Namespace] = tenant
		c.surroundings.Namespaces = append(c.surroundings.Namespaces, tenant.Namespace)
	}
	c.surroundings.Names = []string{"server", "server", "refused", "denied", "garbage", "settings", "missing"}
	return c
}

// limitVolumes makes a StorageClass without a provisioner the default, so that odd Databases get no volumes. The local
// cluster creates only five volumes a second, so volumes of odd Databases would delay the canaries. The canaries use
// the class canaryClass.
func (c *campaign) limitVolumes(t *testing.T) {
	t.Helper()
	classes := c.Kube.StorageV1().StorageClasses()
	const isDefault = "storageclass.kubernetes.io/is-default-class"
	_, err := classes.Patch(t.Context(), canaryClass, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+isDefault+`":"false"}}}`), metav1.PatchOptions{})
	if err == nil {
		_, err = classes.Create(t.Context(), &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "nobody", Annotations: map[string]string{isDefault: "true"},
			}, Provisioner: "example.com/nobody",
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatalf("setting the default StorageClass: %v", err)
	}
}

// createReferences creates the Secrets and the ConfigMap that objects may name. It also limits the number of Pods in
// the namespace, so that a Deployment with two billion replicas does not fill the cluster.
func (c *campaign) createReferences(t *testing.T, namespace string) {
	t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("60")}},
	}
	if _, err := c.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a ResourceQuota: %v", err)
	}
	server := map[string]string{
		"host": "127.0.0.1", "port": c.server.Port, "username": "postgres", "password": c.server.Password,
		"sslmode": "disable",
	}
	for name, data := range map[string]map[string]string{
		"server":  server,
		"refused": {"host": "127.0.0.1", "port": "1", "username": "postgres", "password": "x", "sslmode": "disable"},
		"denied": {
			"host": "127.0.0.1", "port": c.server.Port, "username": "postgres", "password": "wrong", "sslmode": "disable",
		},
		"garbage": {"uri": "postgres://\x00@[::/%zz?sslmode=odd", "host": "", "port": "99999", "ca.crt": "-----BEGIN"},
	} {
		c.CreateSecret(t, namespace, name, data)
	}
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": "x", "a": ""},
	}
	if _, err := c.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a ConfigMap: %v", err)
	}
}

func (c *campaign) kind(t *testing.T, name string) Kind {
	t.Helper()
	for _, kind := range c.kinds {
		if kind.Name == name {
			return kind
		}
	}
	t.Fatalf("artifacts/crds has no kind %q", name)
	return Kind{}
}

// client returns the client that writes an object: the client of the namespace's tenant, or the client of the
// administrator for cluster-scoped objects.
func (c *campaign) client(kind Kind, object *unstructured.Unstructured) dynamic.ResourceInterface {
	at := kind.Resource
	at.Version = object.GroupVersionKind().Version
	if !kind.Namespaced {
		return c.admin.Resource(at)
	}
	return c.tenants[object.GetNamespace()].Dynamic.Resource(at).Namespace(object.GetNamespace())
}

// create creates objects, starting at number first. If last is negative, create stops after the API server has accepted
// a batch. If last is not negative, create stops after number last. It returns the next number.
func (c *campaign) create(t *testing.T, kind Kind, first, last int) (next int) {
	t.Helper()
	var made sync.Mutex
	var alive []*unstructured.Unstructured
	next = first
	take := func() (number int, ok bool) {
		made.Lock()
		defer made.Unlock()
		if last < 0 && len(alive) >= min(batch, *objects) || last >= 0 && next > last {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var creating sync.WaitGroup
	for range creators {
		creating.Go(func() {
			for number, ok := take(); ok; number, ok = take() {
				object := c.surroundings.Object(Seed(*seed), kind, number, 0)
				_, err := c.client(kind, object).Create(t.Context(), object, metav1.CreateOptions{})
				if c.count(kind.Name, object, err) {
					made.Lock()
					alive = append(alive, object)
					made.Unlock()
				}
			}
		})
	}
	creating.Wait()
	c.alive[kind.Name] = alive
	clear(c.reconciles)
	return next
}

// count records whether the API server has accepted an object, and the reason if the API server has rejected the
// object.
func (c *campaign) count(kind string, object *unstructured.Unstructured, err error) (accepted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verbose {
		fmt.Printf("%s\n%v\n", manifest(object), err)
	}
	if err == nil {
		c.accepted[kind]++
		return true
	}
	c.rejected[kind]++
	c.reasons[kind+": "+reasonOf(err)]++
	return false
}

// manifest returns an object as indented JSON.
func manifest(object *unstructured.Unstructured) string {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// update writes another revision of every third object of the batch. The API server may reject the revision.
func (c *campaign) update(t *testing.T, kind Kind) {
	t.Helper()
	for i, object := range c.alive[kind.Name] {
		if i%3 != 0 {
			continue
		}
		var number int
		if _, err := fmt.Sscanf(object.GetName(), "o%d", &number); err != nil {
			t.Fatalf("the name %s has no number", object.GetName())
		}
		changed := c.surroundings.Object(Seed(*seed), kind, number, 1)
		live, err := c.client(kind, object).Get(t.Context(), object.GetName(), metav1.GetOptions{})
		if err != nil {
			continue // garbage collection has deleted the object
		}
		changed.SetResourceVersion(live.GetResourceVersion())
		changed.SetFinalizers(live.GetFinalizers())
		_, err = c.client(kind, object).Update(context.Background(), changed, metav1.UpdateOptions{})
		c.count(kind.Name+" updated", changed, err)
	}
}

// show writes the current batch to a file, because an object of the batch may be the cause of a failure.
func (c *campaign) show(t *testing.T, kind Kind) {
	t.Helper()
	name := fmt.Sprintf("fuzz-%s-%d.json", kind.Name, *seed)
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": c.alive[kind.Name]}, "",
		"  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "bin", name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: the objects of the batch are in %s, the controller's log in %s", *seed, file, c.log.Name())
}

// describe logs the objects in the namespace of the newest canaries.
func (c *campaign) describe(t *testing.T) {
	t.Helper()
	text, err := c.Kubectl(context.Background(), "", "get",
		"pods,pvc,pv,deployments,statefulsets,apps,databases,externaldatabases,ats,platforms,events", "-n", c.canary,
		"-o", "wide")
	t.Logf("namespace %s of the newest canaries: %s\n%v", c.canary, text, err)
}

// tidyClaims deletes the PersistentVolumeClaims that deleted odd Databases have left.
func (c *campaign) tidyClaims(t *testing.T) {
	t.Helper()
	for namespace := range c.tenants {
		claims, err := c.Kube.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("listing claims: %v", err)
		}
		for _, claim := range claims.Items {
			_, err := c.Windlass.WindlassV1alpha1().Databases(namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				continue
			}
			err = c.Kube.CoreV1().PersistentVolumeClaims(namespace).Delete(t.Context(), claim.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("deleting a claim: %v", err)
			}
		}
	}
}

// tidyServer drops the databases that odd objects have left on the server. Each database takes 7 MB.
func (c *campaign) tidyServer(t *testing.T) {
	t.Helper()
	conn, err := c.server.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatalf("connecting to the server: %v", err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "select datname from pg_database where not datistemplate and datname "+
		"<> 'postgres'")
	if err != nil {
		t.Fatalf("listing the databases of the server: %v", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("listing the databases of the server: %v", err)
	}
	for _, name := range names {
		// The statement may fail while the operator uses the database. The next call then drops the database.
		_, _ = conn.Exec(t.Context(), "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)")
	}
}
