//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// graphs maps names to functions that return components, all of them Ats, with dependencies.
var graphs = map[string]func() components{
	"a chain": func() components {
		return components{task("a", "b"), task("b", "c"), task("c", "d"), task("d", "e"), task("e")}
	},
	"a diamond": func() components {
		return components{task("tip", "left", "right"), task("left", "base"), task("right", "base"), task("base")}
	},
	"30 components": func() (all components) {
		random := rand.New(rand.NewPCG(6, 30))
		for i := range 30 {
			c := task(fmt.Sprintf("c%02d", i))
			for j := range i {
				if random.IntN(6) == 0 {
					c.DependsOn = append(c.DependsOn, v1alpha1.ComponentName(fmt.Sprintf("c%02d", j)))
				}
			}
			all = append(all, c)
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	},
}

func TestPlatformCreatesAndDeletesComponentsInDependencyOrder(t *testing.T) {
	t.Parallel()
	for name, graph := range graphs {
		for how, remove := range map[string]func(t *testing.T, namespace string){
			"the Platform is deleted": func(t *testing.T, namespace string) { t.Helper(); deletePlatform(t, shared, namespace) },
			"all are dropped from the spec": func(t *testing.T, namespace string) {
				t.Helper()
				shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components = nil })
				shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			},
			"all are Removed": func(t *testing.T, namespace string) {
				t.Helper()
				shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
					for i := range p.Spec.Components {
						p.Spec.Components[i].ManagementState, p.Spec.Components[i].DependsOn = removed, nil
					}
				})
				shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				namespace := shared.NewNamespace(t)
				shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: graph()})
				shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
				remove(t, namespace)
				inOrder(t, namespace, graph())
			})
		}
	}
}

// inOrder checks that each component was created after its dependencies were Ready, and deleted before its
// dependencies.
func inOrder(t *testing.T, namespace string, graph components) {
	t.Helper()
	record, err := shared.Requests(func(r framework.Request) bool {
		return r.User.Username == controllerUser && r.ObjectRef.Namespace == namespace &&
			r.ObjectRef.Resource == "ats" && r.ResponseStatus.Code < 300
	})
	if err != nil {
		t.Fatal(err)
	}
	received := map[string][]time.Time{}
	for _, r := range record {
		received[r.String()] = append(received[r.String()], r.RequestReceivedTimestamp)
	}
	// when returns the time of the last request of a kind about a component. Only a status write may occur more than
	// once; the last status write sets the phase Done.
	when := func(request string, c v1alpha1.ComponentName) (last time.Time) {
		t.Helper()
		line := fmt.Sprintf("%s %s/%s-%s", request, namespace, namespace, c)
		times := received[line]
		if len(times) == 0 || request != "update ats/status" && len(times) > 1 {
			t.Errorf("%s was sent %d times, want once", line, len(times))
			return last
		}
		return slices.MaxFunc(times, time.Time.Compare)
	}
	for _, c := range graph {
		for _, needed := range c.DependsOn {
			if when("create ats", c.Name).Before(when("update ats/status", needed)) {
				t.Errorf("%s was created before %s was Ready", c.Name, needed)
			}
			if when("delete ats", needed).Before(when("delete ats", c.Name)) {
				t.Errorf("%s was deleted before %s", needed, c.Name)
			}
		}
	}
}

// TestPlatformKeepsDependencyUntilDependentIsDeleted delays the deletion of the dependent component with a finalizer.
func TestPlatformKeepsDependencyUntilDependentIsDeleted(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, namespace string){
		"both are Removed": func(t *testing.T, namespace string) {
			t.Helper()
			shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
				p.Spec.Components[0].ManagementState, p.Spec.Components[1].ManagementState = removed, removed
			})
		},
		"both are dropped from the spec": func(t *testing.T, namespace string) {
			t.Helper()
			shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components = nil })
		},
		"one is Removed and the other is dropped": func(t *testing.T, namespace string) {
			t.Helper()
			shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
				p.Spec.Components = components{web("web:1", removed)}
			})
		},
		"the Platform is deleted": func(t *testing.T, namespace string) {
			t.Helper()
			if err := shared.Windlass.WindlassV1alpha1().Platforms().Delete(t.Context(), namespace,
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
				Namespace: namespace, Components: components{web("web:1", managed, "base"), task("base")},
			})
			shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			const hold = "example.com/hold"
			shared.UpdateApp(t, namespace, namespace+"-web", func(app *v1alpha1.App) {
				app.Finalizers = append(app.Finalizers, hold)
			})
			remove(t, namespace)
			component(t, shared, namespace, "web", v1alpha1.ComponentRemoving)
			base := component(t, shared, namespace, "base", v1alpha1.ComponentWaiting)
			if want := "Waiting for the deletion of components that depend on this component: web."; base.Message != want {
				t.Errorf("the message of base is %q, want %q", base.Message, want)
			}
			at, err := shared.Windlass.CnatV1().Ats(namespace).Get(t.Context(), namespace+"-base", metav1.GetOptions{})
			if err != nil || at.DeletionTimestamp != nil {
				t.Errorf("the dependency is deleted before its dependent: %v", err)
			}
			shared.UpdateApp(t, namespace, namespace+"-web", func(app *v1alpha1.App) {
				app.Finalizers = slices.DeleteFunc(app.Finalizers, func(f string) bool { return f == hold })
			})
			atGone(t, shared, namespace, namespace+"-base")
		})
	}
}

func TestUnreadyComponentDelaysOnlyItsDependents(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: components{
		task("last", "second"), task("second", "gate"), suspended(task("gate")), task("free"), task("freed", "free"),
	}})
	component(t, shared, namespace, "freed", "Done")
	platform := shared.PlatformWith(t, namespace, "ready with two components", func(p *v1alpha1.Platform) bool {
		return p.Status.ReadyComponents == 2
	})
	want := []string{
		"last At Managed Waiting", "second At Managed Waiting", "gate At Managed Pending", "free At Managed Done",
		"freed At Managed Done",
	}
	if got := componentLines(platform); !slices.Equal(got, want) {
		t.Errorf("the components of the status are %v, want %v", got, want)
	}
	ready := message(platform)
	for _, words := range []string{
		"3 of 5 components", "gate is Pending: The command does not run while spec.suspend is true.",
		"second is Waiting: Waiting for gate to be Ready", "last is Waiting: Waiting for second to be Ready",
	} {
		if !strings.Contains(ready, words) {
			t.Errorf("the message of Ready does not contain %q: %s", words, ready)
		}
	}
	shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components[2].At.Suspend = nil })
	shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
}

func TestDependencyCycleChangesNoComponent(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{task("a", "b"), task("b")},
	})
	shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
		p.Spec.Components = components{task("a", "b"), task("b", "c"), task("c", "a"), task("other")}
	})
	platform := shared.PlatformReason(t, namespace, "DependencyCycle")
	words := "a -> b -> c -> a"
	if !strings.Contains(message(platform), words) || platform.Status.Phase != v1alpha1.PlatformFailed {
		t.Errorf("phase %s, Ready: %s", platform.Status.Phase, message(platform))
	}
	ats, err := shared.Windlass.CnatV1().Ats(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || !slices.EqualFunc(ats.Items, []string{"-a", "-b"}, func(at cnatv1.At, name string) bool {
		return at.Name == namespace+name && at.DeletionTimestamp == nil
	}) {
		t.Errorf("the Ats are %v, want -a and -b unchanged (%v)", ats.Items, err)
	}
	deletePlatform(t, shared, namespace)
}
