//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func db(name string) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), Database: &v1alpha1.DatabaseSpec{
		Version: "17", Storage: v1alpha1.DatabaseStorage{Size: resource.MustParse("1Gi")},
	}}
}

func TestAPIServerRejectsInvalidPlatforms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1alpha1.Platform)
		want   string
	}{
		"no namespace":         {func(p *v1alpha1.Platform) { p.Spec.Namespace = "" }, "spec.namespace"},
		"an invalid namespace": {func(p *v1alpha1.Platform) { p.Spec.Namespace = "Shop_1" }, "spec.namespace"},
		"a component without a kind": {
			func(p *v1alpha1.Platform) { p.Spec.Components[0].At = nil }, "a component must have exactly one of app, " +
				"database, externalDatabase and at",
		},
		"a component of two kinds": {
			func(p *v1alpha1.Platform) { p.Spec.Components[0].App = ptr.To(smallest()) },
			"a component must have exactly one of app, database, externalDatabase and at",
		},
		"two components with one name": {
			func(p *v1alpha1.Platform) { p.Spec.Components = components{task("a"), task("a")} }, "Duplicate value",
		},
		"a component without a name": {
			func(p *v1alpha1.Platform) { p.Spec.Components[0].Name = "" }, "spec.components[0].name",
		},
		"an invalid component name": {
			func(p *v1alpha1.Platform) { p.Spec.Components[0].Name = "A.b" }, "spec.components[0].name",
		},
		"an unknown management state": {
			func(p *v1alpha1.Platform) { p.Spec.Components[0].ManagementState = "Paused" }, "managementState",
		},
		"an unknown dependency": {
			func(p *v1alpha1.Platform) { p.Spec.Components = components{task("a", "b")} },
			"dependsOn may only name components of this Platform",
		},
		"a dependency on itself": {
			func(p *v1alpha1.Platform) { p.Spec.Components = components{task("a", "a")} }, "a component cannot depend on itself",
		},
		"a duplicate dependency": {
			func(p *v1alpha1.Platform) { p.Spec.Components = components{task("a", "b", "b"), task("b")} }, "Duplicate value",
		},
		"an At that deletes itself": {
			func(p *v1alpha1.Platform) { p.Spec.Components[0].At.TTLSecondsAfterFinished = ptr.To[int32](1) },
			"its command would run again",
		},
		"an App without an image": {func(p *v1alpha1.Platform) { p.Spec.Components = components{web("", managed)} }, "image"},
		"a Platform's name with a dot": {
			func(p *v1alpha1.Platform) { p.Name = "a.b" }, "the name must be a valid beginning of the name of a Service",
		},
		"names too long for a Service": {func(p *v1alpha1.Platform) {
			p.Spec.Components = components{renamed(web("web:1", managed), v1alpha1.ComponentName(strings.Repeat("a", 60)))}
		}, "at most 63 characters"},
		"names too long for a StatefulSet": {
			func(p *v1alpha1.Platform) {
				p.Spec.Components = components{db(strings.Repeat("a", 50))}
			}, "at most 52 for a database",
		},
		"257 components":  {func(p *v1alpha1.Platform) { p.Spec.Components = many(257, 0) }, "256"},
		"33 dependencies": {func(p *v1alpha1.Platform) { p.Spec.Components = many(40, 33) }, "32"},
	} {
		t.Run(name, func(t *testing.T) {
			platform := &v1alpha1.Platform{
				ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: v1alpha1.PlatformSpec{
					Namespace: "bad", Components: components{task("job")},
				},
			}
			c.change(platform)
			_, err := shared.Windlass.WindlassV1alpha1().Platforms().Create(t.Context(), platform, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an Invalid error with %q", err, c.want)
			}
		})
	}
}

// many returns n components. Each component depends on up to needs components directly before it in the list.
func many(n, needs int) (all components) {
	for i := range n {
		c := suspended(task(fmt.Sprintf("component-with-quite-a-name-%03d", i)))
		for j := max(0, i-needs); j < i; j++ {
			c.DependsOn = append(c.DependsOn, all[j].Name)
		}
		all = append(all, c)
	}
	return all
}

func TestAPIServerAcceptsPlatformsUpToSizeLimit(t *testing.T) {
	t.Parallel()
	for n, needs := range map[int]int{64: 32, 256: 32, 255: 0} {
		platform := &v1alpha1.Platform{
			ObjectMeta: metav1.ObjectMeta{Name: "large"}, Spec: v1alpha1.PlatformSpec{
				Namespace: "large", Components: many(n, needs),
			},
		}
		_, err := shared.Windlass.WindlassV1alpha1().Platforms().Create(t.Context(), platform, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll},
		})
		if err != nil {
			t.Errorf("%d components, each with up to %d dependencies: %v", n, needs, err)
		}
	}
}

// TestLargePlatformReportsUnknownDependency uses a Platform with more than 64 components. The API server does not
// validate the dependencies in a Platform of this size.
func TestLargePlatformReportsUnknownDependency(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: append(many(70, 0), task("last", "nothing")),
	})
	platform := shared.PlatformReason(t, namespace, "InvalidSpec")
	words := `Component "last" depends on "nothing", but this Platform has no such component`
	if !strings.Contains(message(platform), words) {
		t.Errorf("the message of Ready does not contain %q: %s", words, message(platform))
	}
	if ats, err := shared.Windlass.CnatV1().Ats(namespace).List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(ats.Items) > 0 {
		t.Errorf("the operator has created %d Ats, want none (%v)", len(ats.Items), err)
	}
}

func TestInvalidPlatformChangesAreRejected(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	outsideSpec := v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "shop", Owner: "clerk",
	}
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{db("db"), {Name: "outside", ExternalDatabase: &outsideSpec}},
	})
	component(t, shared, namespace, "db", "Ready")
	platforms := shared.Windlass.WindlassV1alpha1().Platforms()
	for name, c := range map[string]struct {
		change func(*v1alpha1.PlatformSpec)
		want   string
	}{
		"another namespace": {func(s *v1alpha1.PlatformSpec) { s.Namespace = "else" }, "namespace cannot be changed"},
		"another version": {
			func(s *v1alpha1.PlatformSpec) { s.Components[0].Database.Version = "16" }, "version cannot be changed",
		},
		"another database": {
			func(s *v1alpha1.PlatformSpec) {
				s.Components[1].ExternalDatabase.DatabaseName = "else"
			}, "databaseName cannot be changed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			platform, err := platforms.Get(t.Context(), namespace, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.change(&platform.Spec)
			if _, err := platforms.Update(t.Context(), platform, metav1.UpdateOptions{
				DryRun: []string{metav1.DryRunAll},
			}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an Invalid error with %q", err, c.want)
			}
		})
	}
	// The API server accepts this change of the Platform, but rejects the resulting change of the Database.
	shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
		p.Spec.Components[0].Database.Storage.Size = resource.MustParse("1Mi")
		p.Spec.Components = append(p.Spec.Components, task("job"))
	})
	component(t, shared, namespace, "job", "Done") // other components are still reconciled
	platform := shared.PlatformReason(t, namespace, "Invalid")
	words := "storage.size cannot shrink"
	if !strings.Contains(message(platform), words) || platform.Status.Phase != v1alpha1.PlatformFailed {
		t.Errorf("phase %s, Ready: %s", platform.Status.Phase, message(platform))
	}
	// The operator sends a rejected patch only once.
	rejected := controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
		return r.ObjectRef.Namespace == namespace && r.ObjectRef.Resource == "databases" && r.ResponseStatus.Code == 422
	})
	if len(rejected) != 1 {
		t.Errorf("the rejected patch was sent %d times, want 1", len(rejected))
	}
}
