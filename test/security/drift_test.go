//go:build integration

package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

const container = "/spec/template/spec/containers/0"

func replace(path, value string) string {
	return fmt.Sprintf(`{"op":"replace","path":%q,"value":%s}`, path, value)
}

func repeat(path string) string {
	list := path[:strings.LastIndex(path, "/")]
	return fmt.Sprintf(`{"op":"copy","from":%q,"path":%q}`, path, list+"/-")
}

var (
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
)

// TestReconcileCorrectsChangedListKeys changes keys of list items in children. The API server would reject a patch that
// adds another item beside the changed item, because of the duplicate.
func TestReconcileCorrectsChangedListKeys(t *testing.T) {
	t.Parallel()
	ofApp, ofDatabase := appOf(t), databaseOf(t)
	for name, attack := range map[string]struct {
		on    *framework.Tenant
		child schema.GroupVersionResource
		patch []string
	}{
		"the port of an App's Service":                 {ofApp, services, []string{replace("/spec/ports/0/port", "8081")}},
		"the name of the port of an App's Service":     {ofApp, services, []string{replace("/spec/ports/0/name", `"web"`)}},
		"an App's container":                           {ofApp, deployments, []string{replace(container+"/name", `"web"`)}},
		"the port of an App's container":               {ofApp, deployments, []string{replace(container+"/ports/0/containerPort", "8081")}},
		"the port of an App's container, twice":        {ofApp, deployments, []string{repeat(container + "/ports/0"), replace(container+"/ports/1/name", `"web"`)}},
		"a mount of an App":                            {ofApp, deployments, []string{replace(container+"/volumeMounts/0/mountPath", `"/else"`)}},
		"a variable of an App":                         {ofApp, deployments, []string{replace(container+"/env/0/name", `"ELSE"`)}},
		"a variable of an App, by the name of another": {ofApp, deployments, []string{replace(container+"/env/0/name", `"SECOND"`)}},
		"a variable of an App, twice":                  {ofApp, deployments, []string{repeat(container + "/env/0"), replace(container+"/env/2/value", `"else"`)}},
		"a volume of an App": {ofApp, deployments, []string{
			replace("/spec/template/spec/volumes/0/name", `"else"`), replace(container+"/volumeMounts/0/name", `"else"`)}},
		"a pull secret of an App":            {ofApp, deployments, []string{replace("/spec/template/spec/imagePullSecrets/0/name", `"else"`)}},
		"the port of a Database's Service":   {ofDatabase, services, []string{replace("/spec/ports/0/port", "5433")}},
		"a Database's container":             {ofDatabase, statefulSets, []string{replace(container+"/name", `"else"`)}},
		"the port of a Database's container": {ofDatabase, statefulSets, []string{replace(container+"/ports/0/containerPort", "5433")}},
		"a mount of a Database":              {ofDatabase, statefulSets, []string{replace(container+"/volumeMounts/1/mountPath", `"/else"`)}},
		"a variable of a Database":           {ofDatabase, statefulSets, []string{replace(container+"/env/0/name", `"ELSE"`)}},
		"a volume of a Database": {ofDatabase, statefulSets, []string{
			replace("/spec/template/spec/volumes/1/name", `"else"`), replace(container+"/volumeMounts/1/name", `"else"`)}},
	} {
		t.Run(name, func(t *testing.T) {
			children := attack.on.Dynamic.Resource(attack.child).Namespace(attack.on.Namespace)
			before, err := children.Get(t.Context(), "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			patch := "[" + strings.Join(attack.patch, ",") + "]"
			changed, err := children.Patch(t.Context(), "shop", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil || cmp.Equal(specOf(before), specOf(changed)) {
				t.Fatalf("the patch does not change the spec: %v", err)
			}
			diff := ""
			framework.Eventually(t, "the "+attack.child.Resource+" to be corrected", func(ctx context.Context) (bool, error) {
				now, err := children.Get(ctx, "shop", metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				diff = cmp.Diff(specOf(before), specOf(now))
				return diff == "", nil
			})
		})
	}
	ofApp.AppIn(t, ofApp.Namespace, "shop", v1alpha1.AppReady)
	ofDatabase.DatabaseIn(t, ofDatabase.Namespace, "shop", v1alpha1.DatabaseReady)
}

func specOf(object *unstructured.Unstructured) any { return object.Object["spec"] }

// appOf returns a tenant with an App whose children have items in all lists that the test changes.
func appOf(t *testing.T) *framework.Tenant {
	t.Helper()
	tenant := shared.NewTenant(t)
	tenant.CreateApp(t, tenant.Namespace, "shop", v1alpha1.AppSpec{
		Image: "registry.example.com/shop:1", Config: map[string]string{"shop.toml": "x"},
		Env:              []corev1.EnvVar{{Name: "FIRST", Value: "1"}, {Name: "SECOND", Value: "2"}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
	})
	tenant.AppIn(t, tenant.Namespace, "shop", v1alpha1.AppReady)
	return tenant
}

// databaseOf returns a tenant with a Database.
func databaseOf(t *testing.T) *framework.Tenant {
	t.Helper()
	tenant := shared.NewTenant(t)
	tenant.CreateDatabase(t, tenant.Namespace, "shop", v1alpha1.DatabaseSpec{
		Version: "17", Storage: v1alpha1.DatabaseStorage{Size: resource.MustParse("1Gi")},
	})
	tenant.DatabaseIn(t, tenant.Namespace, "shop", v1alpha1.DatabaseReady)
	return tenant
}

// TestAppRunsWithLongArguments uses arguments that do not fit into the record, which is an annotation of the Deployment.
func TestAppRunsWithLongArguments(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	long := []string{"--short"}
	for range 3 {
		long = append(long, strings.Repeat("x", 100_000))
	}
	tenant.CreateApp(t, tenant.Namespace, "shop", v1alpha1.AppSpec{Image: "registry.example.com/shop:1", Args: long})
	tenant.AppIn(t, tenant.Namespace, "shop", v1alpha1.AppReady)
	argsAre := func(wanted []string) {
		framework.Eventually(t, "the Deployment to have the arguments of the App", func(ctx context.Context) (bool, error) {
			d, err := tenant.Kube.AppsV1().Deployments(tenant.Namespace).Get(ctx, "shop", metav1.GetOptions{})
			return err == nil && cmp.Equal(wanted, d.Spec.Template.Spec.Containers[0].Args), err
		})
	}
	argsAre(long)
	tenant.UpdateApp(t, tenant.Namespace, "shop", func(app *v1alpha1.App) { app.Spec.Args = nil })
	argsAre(nil)
	tenant.AppIn(t, tenant.Namespace, "shop", v1alpha1.AppReady)
}
