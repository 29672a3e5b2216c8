//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

type components = []v1alpha1.PlatformComponent

// web returns the component web, which is an App with the given image.
func web(image string, state v1alpha1.ManagementState, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	spec := smallest()
	spec.Image = image
	return v1alpha1.PlatformComponent{Name: "web", ManagementState: state, DependsOn: needs, App: &spec}
}

// task returns a component that is an At whose schedule is in the past.
func task(name string, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), DependsOn: needs, At: &cnatv1.AtSpec{
		Schedule: "2020-01-01T00:00:00Z", Command: []string{"sh", "-c", "true"},
	}}
}

// suspended suspends the At of a component, and returns the component. The component becomes Ready only after the At
// is resumed.
func suspended(c v1alpha1.PlatformComponent) v1alpha1.PlatformComponent {
	c.At.Suspend = ptr.To(true)
	return c
}

// The possible results of a transition for the App of component web.
const (
	isNone      = "it does not exist, as before"
	isMade      = "it was created"
	isKept      = "it was kept, and the Platform owns it"
	isUntouched = "it was not written, and has no owner"
	isReleased  = "it was kept, and has no owner"
	isGone      = "it was deleted"
)

// transition is a change of the components of a Platform, and its expected result.
type transition struct {
	// before are the components before the change. The test applies the lists one after the other, and waits until the
	// Platform is Ready after each list.
	before []components
	// after are the components after the change.
	after components
	// app is the result for the App of component web.
	app string
	// image is the image of the App after the transition.
	image string
	// says is the expected result of componentLines after the transition.
	says []string
}

const (
	managed, removed, unmanaged = v1alpha1.Managed, v1alpha1.Removed, v1alpha1.Unmanaged
)

// transitions maps names to all transitions between management states, and to changes of the list of components.
var transitions = map[string]transition{
	"Managed to Managed": {
		[]components{{web("web:1", managed)}}, components{web("web:2", managed)}, isKept, "web:2", []string{
			"web App Managed Ready",
		},
	},
	"Managed to Removed": {
		[]components{{web("web:1", managed)}}, components{web("web:1", removed)}, isGone, "", []string{
			"web App Removed Removed",
		},
	},
	"Managed to Unmanaged": {
		[]components{{web("web:1", managed)}}, components{web("web:2", unmanaged)}, isReleased, "web:1", []string{
			"web App Unmanaged Ready",
		},
	},
	"Removed to Managed": {
		[]components{{web("web:1", removed)}}, components{web("web:2", managed)}, isMade, "web:2", []string{
			"web App Managed Ready",
		},
	},
	"Removed to Removed": {
		[]components{{web("web:1", removed)}}, components{web("web:2", removed)}, isNone, "", []string{
			"web App Removed Removed",
		},
	},
	"Removed to Unmanaged": {
		[]components{{web("web:1", removed)}}, components{web("web:1", unmanaged)}, isNone, "", []string{
			"web App Unmanaged Absent",
		},
	},
	"Unmanaged to Managed": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, components{web("web:2", managed)}, isKept,
		"web:2", []string{"web App Managed Ready"},
	},
	"Unmanaged to Removed": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, components{web("web:1", removed)}, isGone, "",
		[]string{"web App Removed Removed"},
	},
	"Unmanaged to Unmanaged": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, components{
			web("web:2", unmanaged),
		}, isUntouched, "web:1", []string{"web App Unmanaged Ready"},
	},
	"component is added": {
		[]components{{task("job")}}, components{task("job"), web("web:1", managed, "job")}, isMade, "web:1", []string{
			"job At Managed Done", "web App Managed Ready",
		},
	},
	"component is dropped": {
		[]components{{task("job"), web("web:1", managed)}}, components{task("job")}, isGone, "", []string{
			"job At Managed Done",
		},
	},
	"Unmanaged component is dropped": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, nil, isUntouched, "web:1", nil,
	},
	"component is renamed": {
		[]components{{web("web:1", managed)}}, components{
			renamed(web("web:1", managed), "site"),
		}, isGone, "", []string{"site App Managed Ready"},
	},
	"component changes its kind": {
		[]components{{web("web:1", managed)}}, components{task("web")}, isGone, "", []string{"web At Managed Done"},
	},
}

func renamed(c v1alpha1.PlatformComponent, name v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	c.Name = name
	return c
}

func TestPlatformAppliesComponentTransitions(t *testing.T) {
	t.Parallel()
	for name, tr := range transitions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			seen := tr.begin(t, shared, namespace)
			tr.act(t, shared, namespace)
			tr.end(t, shared, namespace, seen)
		})
	}
}

// begin creates the Platform in its state before the change, and returns the App of component web, or nil.
func (tr transition) begin(t *testing.T, on *framework.Installation, namespace string) *v1alpha1.App {
	t.Helper()
	on.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: tr.before[0]})
	on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	for _, next := range tr.before[1:] {
		on.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components = next })
		on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	}
	return childApp(t, on, namespace, "web")
}

// act changes the components of the Platform.
func (tr transition) act(t *testing.T, on *framework.Installation, namespace string) {
	t.Helper()
	on.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components = tr.after })
}

// end waits until the Platform is Ready, and compares the result with the expected result. before is the App that
// begin has returned.
func (tr transition) end(t *testing.T, on *framework.Installation, namespace string, before *v1alpha1.App) {
	t.Helper()
	platform := on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	app := childApp(t, on, namespace, "web")
	if got := became(platform, before, app); got != tr.app {
		t.Errorf("the App of component web: %s, want: %s", got, tr.app)
	}
	if app != nil && app.Spec.Image != tr.image {
		t.Errorf("the image is %s, want %s", app.Spec.Image, tr.image)
	}
	if diff := cmp.Diff(tr.says, componentLines(platform), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("components of the status (-want +got):\n%s", diff)
	}
}

// became returns the result of a transition for an App. before and app are the App before and after the transition, or
// nil.
func became(platform *v1alpha1.Platform, before, app *v1alpha1.App) string {
	var was, is types.UID
	if before != nil {
		was = before.UID
	}
	if app != nil {
		is = app.UID
	}
	owned := app != nil && metav1.IsControlledBy(app, platform)
	switch {
	case was == "" && is == "":
		return isNone
	case is == "":
		return isGone
	case was == "" && owned:
		return isMade
	case was != is:
		return "it was replaced"
	case owned:
		return isKept
	case len(app.OwnerReferences) > 0:
		return "it has another owner"
	case app.Generation == before.Generation && app.ResourceVersion == before.ResourceVersion:
		return isUntouched
	}
	return isReleased
}

// childApp returns the App of a component, or nil. The Platform has the name of the namespace.
func childApp(t *testing.T, p *framework.Installation, namespace, component string) *v1alpha1.App {
	t.Helper()
	app, err := p.Windlass.WindlassV1alpha1().Apps(namespace).Get(t.Context(), namespace+"-"+component,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// componentLines returns the name, kind, management state and phase of each component in the status.
func componentLines(platform *v1alpha1.Platform) (lines []string) {
	for _, c := range platform.Status.Components {
		lines = append(lines, strings.Join([]string{string(c.Name), c.Kind, string(c.ManagementState), string(c.Phase)}, " "))
	}
	return lines
}

// component waits until a component has a phase in the status, and returns the component's status.
func component(
	t *testing.T, p *framework.Installation, platform, name string, phase v1alpha1.PlatformComponentPhase,
) v1alpha1.PlatformComponentStatus {
	t.Helper()
	var found v1alpha1.PlatformComponentStatus
	p.PlatformWith(t, platform, name+" "+string(phase), func(p *v1alpha1.Platform) bool {
		i := slices.IndexFunc(p.Status.Components, func(c v1alpha1.PlatformComponentStatus) bool {
			return string(c.Name) == name
		})
		if i >= 0 {
			found = p.Status.Components[i]
		}
		return i >= 0 && found.Phase == phase
	})
	return found
}

// deletePlatform deletes a Platform, and waits until it no longer exists.
func deletePlatform(t *testing.T, p *framework.Installation, name string) {
	t.Helper()
	platforms := p.Windlass.WindlassV1alpha1().Platforms()
	if err := platforms.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	platformGone(t, p, name)
}

func platformGone(t *testing.T, p *framework.Installation, name string) {
	t.Helper()
	framework.Eventually(t, "Platform "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		_, err := p.Windlass.WindlassV1alpha1().Platforms().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
	})
}

// atGone waits until an At no longer exists.
func atGone(t *testing.T, p *framework.Installation, namespace, name string) {
	t.Helper()
	framework.Eventually(t, "At "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		_, err := p.Windlass.CnatV1().Ats(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
	})
}
