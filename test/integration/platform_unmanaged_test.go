//go:build integration

package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// childWrites returns the controller's writes to Apps in a namespace, except to their status.
func childWrites(t *testing.T, namespace string) []string {
	t.Helper()
	return controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
		return r.ObjectRef.Namespace == namespace && r.ObjectRef.APIGroup == "windlass.dev" &&
			r.ObjectRef.Resource == "apps" &&
			r.ObjectRef.Subresource == "" && r.Verb != "get"
	})
}

// setState sets the management state of the first component, and waits until the Platform is Ready.
func setState(t *testing.T, namespace string, state v1alpha1.ManagementState) *v1alpha1.Platform {
	t.Helper()
	changeState(t, namespace, state)
	return shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
}

// changeState sets the management state of the first component of a Platform.
func changeState(t *testing.T, namespace string, state v1alpha1.ManagementState) {
	t.Helper()
	shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components[0].ManagementState = state })
}

// editWeb changes the App of component web as another client does, and returns the App when it is Ready.
func editWeb(t *testing.T, namespace string, change func(*v1alpha1.App)) *v1alpha1.App {
	t.Helper()
	shared.UpdateApp(t, namespace, namespace+"-web", change)
	return shared.AppIn(t, namespace, namespace+"-web", v1alpha1.AppReady)
}

func TestPlatformWritesNothingToUnmanagedComponent(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{web("web:1", managed), task("job", "web")},
	})
	shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	made := childApp(t, shared, namespace, "web")
	setState(t, namespace, unmanaged)
	before := childWrites(t, namespace)
	if diff := cmp.Diff([]string{
		"create apps " + namespace + "/" + made.Name, "patch apps " + namespace + "/" + made.Name,
	}, before); diff != "" {
		t.Errorf("writes for the creation and release of the App (-want +got):\n%s", diff)
	}
	edited := editWeb(t, namespace, func(app *v1alpha1.App) {
		app.Spec.Image, app.Spec.Config = "theirs:1", map[string]string{"theirs": "yes"}
		app.Labels["app.kubernetes.io/component"] = "theirs"
		delete(app.Labels, "app.kubernetes.io/part-of")
	})
	for i := range 20 {
		shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "touched", fmt.Sprint(i))
			p.Spec.Components[0].App.Image = fmt.Sprintf("web:%d", i)
		})
	}
	shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	deletePlatform(t, shared, namespace)
	left := childApp(t, shared, namespace, "web")
	if left == nil || left.UID != made.UID || left.DeletionTimestamp != nil {
		t.Fatalf("the App was deleted with the Platform: %v", left)
	}
	if diff := cmp.Diff(edited.ObjectMeta, left.ObjectMeta) + cmp.Diff(edited.Spec, left.Spec); diff != "" {
		t.Errorf("the App (-before +after):\n%s", diff)
	}
	if after := childWrites(t, namespace); len(after) != len(before) {
		t.Errorf("the operator sent writes to the App: %v", after[len(before):])
	}
}

func TestManagedAdoptsOnlyPreviousChildOfPlatform(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// theirs provides a foreign App with the name of the child.
		theirs func(t *testing.T, namespace string)
		// first is the management state in the first spec of the Platform. theirs runs before the creation of an
		// Unmanaged component, and after the creation of a Managed component.
		first v1alpha1.ManagementState
	}{
		"the App existed before": {
			theirs: func(t *testing.T, namespace string) { t.Helper(); theirApp(t, namespace) }, first: unmanaged,
		},
		"the App replaces the previous child": {
			theirs: func(t *testing.T, namespace string) {
				t.Helper()
				setState(t, namespace, unmanaged)
				deleteWeb(t, namespace)
				theirApp(t, namespace)
			}, first: managed,
		},
		"the App belonged to a previous Platform with this name": {
			theirs: func(t *testing.T, namespace string) {
				t.Helper()
				setState(t, namespace, unmanaged)
				deletePlatform(t, shared, namespace)
				shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
					Namespace: namespace, Components: components{web("web:1", unmanaged)},
				})
			}, first: managed,
		},
		"the App has no record": {
			theirs: func(t *testing.T, namespace string) {
				t.Helper()
				setState(t, namespace, unmanaged)
				editWeb(t, namespace, func(app *v1alpha1.App) { delete(app.Annotations, recordAnnotation) })
			}, first: managed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			if c.first == unmanaged {
				c.theirs(t, namespace)
			}
			shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
				Namespace: namespace, Components: components{web("web:1", c.first)},
			})
			shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			if c.first == managed {
				c.theirs(t, namespace)
			}
			shared.AppIn(t, namespace, namespace+"-web", v1alpha1.AppReady)
			before := childApp(t, shared, namespace, "web")
			writes := childWrites(t, namespace)

			changeState(t, namespace, managed)
			shared.PlatformReason(t, namespace, "NameConflict")
			component(t, shared, namespace, "web", v1alpha1.ComponentWaiting)
			changeState(t, namespace, removed)
			shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			component(t, shared, namespace, "web", v1alpha1.ComponentRemoved)
			deletePlatform(t, shared, namespace)

			after := childApp(t, shared, namespace, "web")
			if after == nil || cmp.Diff(before, after) != "" {
				t.Errorf("the foreign App (-before +after):\n%s", cmp.Diff(before, after))
			}
			if now := childWrites(t, namespace); len(now) != len(writes) {
				t.Errorf("the operator sent writes to the foreign App: %v", now[len(writes):])
			}
		})
	}
}

// theirApp creates a foreign App with the name of the child of component web.
func theirApp(t *testing.T, namespace string) {
	t.Helper()
	shared.CreateApp(t, namespace, namespace+"-web", smallest())
}

func deleteWeb(t *testing.T, namespace string) {
	t.Helper()
	_, err := shared.Kubectl(t.Context(), "", "delete", "app", namespace+"-web", "-n", namespace, "--timeout=60s")
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlatformReportsNameConflictWithChildOfOtherPlatform gives Platform NAMESPACE-a the component b, and Platform
// NAMESPACE the component a-b. Both children have the name NAMESPACE-a-b.
func TestPlatformReportsNameConflictWithChildOfOtherPlatform(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	first, second := namespace+"-a", namespace
	shared.CreatePlatform(t, first, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{renamed(web("web:1", managed), "b")},
	})
	shared.PlatformIn(t, first, v1alpha1.PlatformReady)
	shared.CreatePlatform(t, second, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{renamed(web("web:2", managed), "a-b")},
	})
	shared.PlatformReason(t, second, "NameConflict")
	deletePlatform(t, shared, second)
	app, err := shared.Windlass.WindlassV1alpha1().Apps(namespace).Get(t.Context(), namespace+"-a-b", metav1.GetOptions{})
	if err != nil || app.Spec.Image != "web:1" || app.DeletionTimestamp != nil {
		t.Errorf("the App of the first Platform is %v, want it unchanged (%v)", app, err)
	}
}
