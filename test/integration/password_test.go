//go:build integration

package integration

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestDatabaseKeepsPasswordAcrossRestartsAndChanges kills the controller a hundred times, and changes a field of the
// spec each time.
func TestDatabaseKeepsPasswordAcrossRestartsAndChanges(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	p.CreateDatabase(t, "default", "shop", framework.SmallestDatabase())
	changes := []func(spec *v1alpha1.DatabaseSpec, n int){
		func(spec *v1alpha1.DatabaseSpec, n int) { spec.Image = fmt.Sprintf("postgres:17.%d", n) },
		func(spec *v1alpha1.DatabaseSpec, n int) {
			spec.Storage.Size = *resource.NewQuantity(int64(n+2)<<30, resource.BinarySI)
		},
		func(spec *v1alpha1.DatabaseSpec, n int) { spec.DatabaseName = fmt.Sprintf("database-%d", n) },
		func(spec *v1alpha1.DatabaseSpec, n int) { spec.Owner = fmt.Sprintf("owner-%d", n) },
		func(spec *v1alpha1.DatabaseSpec, n int) {
			spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": v1alpha1.ParameterValue(fmt.Sprintf("%dMB", n+1))}
		},
		func(spec *v1alpha1.DatabaseSpec, n int) {
			spec.DeletionPolicy = []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionRetain}[n%2]
		},
	}
	password := ""
	for n := range 4 * len(changes) {
		controller := framework.Launch(t, p.Cluster, "--leader-elect=false")
		db := p.DatabaseIn(t, "default", "shop", v1alpha1.DatabaseReady)
		secret := p.Credentials(t, "default", "shop")
		if password == "" {
			password = string(secret.Data["password"])
		}
		if got := string(secret.Data["password"]); len(got) != 32 || got != password {
			t.Fatalf("the password has changed after %d restarts", n)
		}
		want := fmt.Sprintf("postgresql://%s:%s@shop.default.svc:5432/%s?sslmode=verify-full&sslrootcert="+
			"%%2Fetc%%2Fwindlass%%2Fdatabase%%2Fca.crt", db.Spec.Owner, password, db.Spec.DatabaseName)
		if got := string(secret.Data["uri"]); got != want {
			t.Fatalf("the uri is %q, want %q", got, want)
		}
		controller.Kill()
		p.UpdateDatabase(t, "default", "shop", func(db *v1alpha1.Database) { changes[n%len(changes)](&db.Spec, n) })
	}
	created := controllerRequests(t, p.Cluster, func(r framework.Request) bool {
		return r.Verb == "create" && r.ObjectRef.Namespace == "default" && r.ObjectRef.Resource == "secrets"
	})
	if want := []string{
		"create secrets default/shop-certificate", "create secrets default/shop-credentials",
		"create secrets default/shop-settings",
	}; !slices.Equal(created, want) {
		t.Errorf("the operator created %v, want %v", created, want)
	}
}

// TestDatabasePasswordAppearsOnlyInSecrets searches for passwords and parts of passwords in everything that the
// operator writes, except Secrets.
func TestDatabasePasswordAppearsOnlyInSecrets(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	controller := framework.Launch(t, p.Cluster, "-v=7")
	defer controller.Terminate()
	canary := func() (passwords []string) {
		t.Helper()
		p.DatabaseIn(t, "default", "shop", v1alpha1.DatabaseReady)
		return []string{string(p.Credentials(t, "default", "shop").Data["password"])}
	}
	p.CreateDatabase(t, "default", "shop", framework.SmallestDatabase())
	spec := smallest()
	spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "shop"}
	p.CreateApp(t, "default", "storefront", spec)
	p.AppIn(t, "default", "storefront", v1alpha1.AppReady)
	found := canary()
	secrets := p.Kube.CoreV1().Secrets("default")
	change := func(password string) {
		t.Helper()
		// The operator may write the Secret at the same time.
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			secret := p.Credentials(t, "default", "shop")
			secret.Data["password"] = []byte(password)
			_, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		found = append(found, strings.TrimSpace(password))
	}
	change("canary-that-is-set-by-a-user-5e1f")
	canary()
	change("canary-that-ends-in-a-line-break-77ab\n")
	p.DatabaseReason(t, "default", "shop", "InvalidPassword")
	if err := secrets.Delete(t.Context(), "shop-credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "a generated password", func(ctx context.Context) (bool, error) {
		secret, err := secrets.Get(ctx, "shop-credentials", metav1.GetOptions{})
		return err == nil && len(secret.Data["password"]) == 32, nil
	})
	found = append(found, canary()...)
	p.AppIn(t, "default", "storefront", v1alpha1.AppReady)

	lookFor(t, p, controller, found, nil, []string{
		"databases", "apps.windlass.dev", "statefulsets", "deployments", "replicasets", "controllerrevisions",
		"services", "configmaps", "persistentvolumeclaims", "pods", "events", "events.events.k8s.io",
	}, []string{"shop-credentials"})
}

// lookFor stops the controller. It fails the test if a password or a part of a password appears anywhere: in the log
// and metrics of the controller, in the audit log, in the given resources, in the metadata of the given Secrets, or in
// places.
func lookFor(
	t *testing.T, p *framework.Installation, controller *framework.Process, passwords []string,
	places map[string]string, resources, secrets []string,
) {
	t.Helper()
	audit, err := p.AuditLog()
	if err != nil {
		t.Fatal(err)
	}
	places = maps.Clone(places)
	if places == nil {
		places = map[string]string{}
	}
	places["the audit log"], places["the controller's metrics"] = audit, controller.Get(t, "/metrics")
	read := func(where string, args ...string) {
		t.Helper()
		if places[where], err = p.Kubectl(t.Context(), "",
			append([]string{"get", "--show-managed-fields"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, resource := range resources {
		read(resource, resource, "-A", "-o", "json")
	}
	for _, name := range secrets {
		read("the metadata of Secret "+name, "secret", name, "-o", "jsonpath={.metadata}")
	}
	controller.Terminate()
	places["the controller's log"] = controller.Log.String()
	for where, text := range places {
		if len(text) < 50 {
			t.Errorf("%s is empty or incomplete: %q", where, text)
		}
		for _, password := range passwords {
			for _, words := range forms(password) {
				if strings.Contains(text, words) {
					t.Errorf("%s contains a password, as %q", where, words)
				}
			}
		}
	}
}

// forms returns the texts that reveal a password: its first and last characters, and its beginning in base64 and in
// hex.
func forms(password string) []string {
	return []string{
		password[:12], password[len(password)-12:], base64.StdEncoding.EncodeToString([]byte(password))[:12],
		hex.EncodeToString([]byte(password))[:16],
	}
}
