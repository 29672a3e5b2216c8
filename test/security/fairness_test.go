//go:build integration

package security

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// tenantApp is the spec of a small App.
var tenantApp = framework.ProbedApp("registry.example.com/app:1")

// requestCount returns the number of the controller's requests with a verb and resource in a namespace.
func requestCount(t *testing.T, on *framework.Installation, namespace, verb, resource string) int {
	t.Helper()
	requests, err := on.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.ObjectRef.Namespace == namespace && r.Verb == verb &&
			strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/") == resource
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(requests)
}

// waiting returns the spec of an App that waits for a Secret. The operator sends one write for such an App, to its
// status.
func waiting() v1alpha1.AppSpec {
	spec := tenantApp
	spec.EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}}},
	}
	return spec
}

func TestBusyTenantDoesNotDelayOtherTenant(t *testing.T) {
	t.Parallel()
	const objects, creators = 1000, 10
	p := framework.Own(t)
	greedy, modest := p.NewTenant(t), p.NewTenant(t)
	var creating sync.WaitGroup
	for c := range creators {
		creating.Go(func() {
			for i := range objects / creators {
				greedy.CreateApp(t, greedy.Namespace, fmt.Sprintf("app-%d-%d", c, i), waiting())
			}
		})
	}
	creating.Wait()
	framework.Launch(t, p.Cluster) // the first list of the controller contains all Apps, and each App counts as a change
	framework.Eventually(t, "the first reconciles", func(context.Context) (bool, error) {
		return requestCount(t, p, greedy.Namespace, "update", "apps/status") > 0, nil
	})
	modest.CreateApp(t, modest.Namespace, "modest", tenantApp)
	framework.Eventually(t, "the Deployment of another tenant", func(ctx context.Context) (bool, error) {
		_, err := modest.Kube.AppsV1().Deployments(modest.Namespace).Get(ctx, "modest", metav1.GetOptions{})
		return err == nil, framework.IgnoreNotFound(err)
	})
	requests, err := p.Requests(func(r framework.Request) bool {
		return r.String() == "create apps "+modest.Namespace+"/modest" || r.String() == "create deployments "+
			modest.Namespace+"/modest" ||
			r.ObjectRef.Namespace == greedy.Namespace && r.User.Username == framework.ControllerUser &&
				r.ObjectRef.Subresource == "status"
	})
	if err != nil {
		t.Fatal(err)
	}
	created := slices.IndexFunc(requests, func(r framework.Request) bool {
		return r.ObjectRef.Resource == "apps" && r.Verb == "create"
	})
	reconciled := slices.IndexFunc(requests, func(r framework.Request) bool {
		return r.ObjectRef.Resource == "deployments"
	})
	// Some reconciles are in flight, and some end before the controller receives the event. Their number is larger than
	// the number of workers, and far smaller than the number of waiting objects.
	if between := reconciled - created; between > 200 {
		t.Errorf("%d of %d reconciles of the busy tenant came before the App of the other tenant, want at most 200",
			between, objects)
	}
	if left := objects - len(requests); left < objects/4 {
		t.Logf("only %d reconciles remained, so this run proves little", left)
	}
}

func TestSecretAnnotationCostsOneRead(t *testing.T) {
	t.Parallel()
	const apps = 50
	tenant := shared.NewTenant(t)
	tenant.CreateSecret(t, tenant.Namespace, "large", map[string]string{"a": strings.Repeat("x", 900<<10)})
	spec := tenantApp
	spec.EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "large"}}},
	}
	for i := range apps {
		tenant.CreateApp(t, tenant.Namespace, fmt.Sprint("app-", i), spec)
	}
	for i := range apps {
		tenant.AppIn(t, tenant.Namespace, fmt.Sprint("app-", i), v1alpha1.AppReady)
	}
	reads := requestCount(t, shared, tenant.Namespace, "get", "secrets")
	patches := requestCount(t, shared, tenant.Namespace, "patch", "deployments")
	if reads > 1 {
		t.Errorf("%d Apps read one version of a Secret %d times", apps, reads)
	}
	const changes = 3
	for i := range changes {
		before := requestCount(t, shared, tenant.Namespace, "get", "secrets")
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, i)
		_, err := tenant.Kube.CoreV1().Secrets(tenant.Namespace).Patch(t.Context(), "large", types.MergePatchType,
			patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "the annotated Secret to be read", func(context.Context) (bool, error) {
			return requestCount(t, shared, tenant.Namespace, "get", "secrets") > before, nil
		})
	}
	// The App "last" is reconciled after the Apps that use the annotated Secret.
	tenant.CreateApp(t, tenant.Namespace, "last", tenantApp)
	tenant.AppIn(t, tenant.Namespace, "last", v1alpha1.AppReady)
	if n := requestCount(t, shared, tenant.Namespace, "get", "secrets") - reads; n != changes {
		t.Errorf("%d annotations cost %d reads", changes, n)
	}
	if n := requestCount(t, shared, tenant.Namespace, "patch", "deployments") - patches; n != 0 {
		t.Errorf("%d annotations cost %d writes", changes, n)
	}
}

func TestWriteBudgetSlowsRevertLoop(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	tenant := shared.NewTenant(t)
	tenant.CreateApp(t, tenant.Namespace, "web", tenantApp)
	tenant.AppIn(t, tenant.Namespace, "web", v1alpha1.AppReady)
	services := tenant.Kube.CoreV1().Services(tenant.Namespace)
	began, revert := time.Now(), []byte(`{"metadata":{"labels":{"app.kubernetes.io/name":"reverted"}}}`)
	for range 300 {
		if _, err := services.Patch(t.Context(), "web", types.MergePatchType, revert, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "the operator to correct the label", func(ctx context.Context) (bool, error) {
			service, err := services.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && service.Labels["app.kubernetes.io/name"] != "reverted", err
		})
	}
	// The write budget of an object allows 250 writes at once, and then one write each second.
	took, n := int(time.Since(began).Seconds()), requestCount(t, shared, tenant.Namespace, "patch", "services")
	if n > 250+took+10 {
		t.Errorf("a loop of %d s caused %d writes", took, n)
	}
	canary(t, shared)
}

// alternating starts a server that sends HTTP on every second connection, and nothing on the other connections. The
// server closes each connection at once. connections returns the number of connections so far.
func alternating(t *testing.T) (address string, connections func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var mu sync.Mutex
	n := 0
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			n++
			odd := n%2 == 1
			mu.Unlock()
			if odd {
				_, _ = connection.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
			}
			_ = connection.Close()
		}
	}()
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestOwnStatusWriteDoesNotRequeueExternalDatabase(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	address, connections := alternating(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	tenant.CreateSecret(t, tenant.Namespace, "server", map[string]string{
		"host": host, "port": port, "username": "admin", "password": "secret", "sslmode": "disable",
	})
	spec := framework.EverythingOfExternalDatabase()
	tenant.CreateExternalDatabase(t, tenant.Namespace, "shop", spec)
	framework.Eventually(t, "a connection to the server", func(context.Context) (bool, error) {
		return connections() > 0, nil
	})
	// Meanwhile the operator reconciles many times for other tenants.
	for range 5 {
		canary(t, shared)
	}
	if n := requestCount(t, shared, tenant.Namespace, "update", "externaldatabases/status"); n > 10 {
		t.Errorf("a server that alternates its responses caused %d status writes, want at most 10", n)
	}
}
