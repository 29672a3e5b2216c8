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
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

type components = []v1alpha1.PlatformComponent

// web is a component that is an App with an image.
func web(image string, state v1alpha1.ManagementState, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	spec := smallest()
	spec.Image = image
	return v1alpha1.PlatformComponent{Name: "web", ManagementState: state, DependsOn: needs, App: &spec}
}

// task is a component that is an At, which is Ready at once.
func task(name string, needs ...v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	return v1alpha1.PlatformComponent{Name: v1alpha1.ComponentName(name), DependsOn: needs, At: &cnatv1.AtSpec{
		Schedule: "2020-01-01T00:00:00Z", Command: []string{"sh", "-c", "true"},
	}}
}

// suspended is one that is not Ready until it is resumed.
func suspended(c v1alpha1.PlatformComponent) v1alpha1.PlatformComponent {
	c.At.Suspend = ptr.To(true)
	return c
}

// What becomes of the App of component web in a transition.
const (
	isNone      = "there is none, as before"
	isMade      = "it is made"
	isKept      = "it is kept, and is the Platform's"
	isUntouched = "nobody has written to it, and it is nobody's"
	isReleased  = "it is the same, and is nobody's"
	isGone      = "it is gone"
)

// transition is a change of a Platform, and what becomes of it.
type transition struct {
	// before is what it was, one after another, each time until it was at rest.
	before []components
	after  components
	app    string
	// image is that of the App afterwards.
	image string
	// says are the components of the status afterwards.
	says []string
}

const (
	managed, removed, unmanaged = v1alpha1.Managed, v1alpha1.Removed, v1alpha1.Unmanaged
)

// transitions are all that there are from state to state, and of the list.
var transitions = map[string]transition{
	"Managed to Managed": {
		[]components{{web("web:1", managed)}}, components{web("web:2", managed)}, isKept, "web:2", []string{"web App Managed Ready"},
	},
	"Managed to Removed": {
		[]components{{web("web:1", managed)}}, components{web("web:1", removed)}, isGone, "", []string{"web App Removed Removed"},
	},
	"Managed to Unmanaged": {
		[]components{{web("web:1", managed)}}, components{web("web:2", unmanaged)}, isReleased, "web:1", []string{"web App Unmanaged Ready"},
	},
	"Removed to Managed": {
		[]components{{web("web:1", removed)}}, components{web("web:2", managed)}, isMade, "web:2", []string{"web App Managed Ready"},
	},
	"Removed to Removed": {
		[]components{{web("web:1", removed)}}, components{web("web:2", removed)}, isNone, "", []string{"web App Removed Removed"},
	},
	"Removed to Unmanaged": {
		[]components{{web("web:1", removed)}}, components{web("web:1", unmanaged)}, isNone, "", []string{"web App Unmanaged Absent"},
	},
	"Unmanaged to Managed": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, components{web("web:2", managed)}, isKept, "web:2", []string{"web App Managed Ready"},
	},
	"Unmanaged to Removed": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, components{web("web:1", removed)}, isGone, "", []string{"web App Removed Removed"},
	},
	"Unmanaged to Unmanaged": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, components{web("web:2", unmanaged)}, isUntouched, "web:1", []string{"web App Unmanaged Ready"},
	},
	"added": {
		[]components{{task("job")}}, components{task("job"), web("web:1", managed, "job")}, isMade, "web:1", []string{"job At Managed Done", "web App Managed Ready"},
	},
	"dropped": {
		[]components{{task("job"), web("web:1", managed)}}, components{task("job")}, isGone, "", []string{"job At Managed Done"},
	},
	"dropped when Unmanaged": {
		[]components{{web("web:1", managed)}, {web("web:1", unmanaged)}}, nil, isUntouched, "web:1", nil,
	},
	"renamed": {
		[]components{{web("web:1", managed)}}, components{renamed(web("web:1", managed), "site")}, isGone, "", []string{"site App Managed Ready"},
	},
	"its kind changed": {
		[]components{{web("web:1", managed)}}, components{task("web")}, isGone, "", []string{"web At Managed Done"},
	},
}

func renamed(c v1alpha1.PlatformComponent, name v1alpha1.ComponentName) v1alpha1.PlatformComponent {
	c.Name = name
	return c
}

func TestComponentsChangeTheirStates(t *testing.T) {
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

// begin has the Platform come to rest before the change, and returns its App then.
func (tr transition) begin(t *testing.T, on *place.Place, namespace string) *v1alpha1.App {
	t.Helper()
	on.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: tr.before[0]})
	on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	for _, next := range tr.before[1:] {
		on.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components = next })
		on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	}
	return childApp(t, on, namespace, "web")
}

func (tr transition) act(t *testing.T, on *place.Place, namespace string) {
	t.Helper()
	on.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components = tr.after })
}

// end waits until the Platform is at rest, and compares what has become of it.
func (tr transition) end(t *testing.T, on *place.Place, namespace string, before *v1alpha1.App) {
	t.Helper()
	platform := on.PlatformIn(t, namespace, v1alpha1.PlatformReady)
	app := childApp(t, on, namespace, "web")
	if got := became(platform, before, app); got != tr.app {
		t.Errorf("the App: %s, and not: %s", got, tr.app)
	}
	if app != nil && app.Spec.Image != tr.image {
		t.Errorf("its image is %s, and not %s", app.Spec.Image, tr.image)
	}
	if diff := cmp.Diff(tr.says, says(platform), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("components (-wanted +got):\n%s", diff)
	}
}

// became says what an App is that was another before.
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
		return "it is another"
	case owned:
		return isKept
	case len(app.OwnerReferences) > 0:
		return "it is somebody else's"
	case app.Generation == before.Generation && app.ResourceVersion == before.ResourceVersion:
		return isUntouched
	}
	return isReleased
}

// childApp is the App of a component, or nil. Its Platform has the name of the namespace.
func childApp(t *testing.T, p *place.Place, namespace, component string) *v1alpha1.App {
	t.Helper()
	app, err := p.Windlass.WindlassV1alpha1().Apps(namespace).Get(t.Context(), namespace+"-"+component, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// says are the components of a Platform's status: name, kind, state and phase.
func says(platform *v1alpha1.Platform) (lines []string) {
	for _, c := range platform.Status.Components {
		lines = append(lines, strings.Join([]string{string(c.Name), c.Kind, string(c.ManagementState), string(c.Phase)}, " "))
	}
	return lines
}

// component waits until the status says of a component that it is in a phase.
func component(t *testing.T, p *place.Place, platform, name string, phase v1alpha1.PlatformComponentPhase) v1alpha1.PlatformComponentStatus {
	t.Helper()
	var found v1alpha1.PlatformComponentStatus
	p.PlatformWith(t, platform, name+" "+string(phase), func(p *v1alpha1.Platform) bool {
		i := slices.IndexFunc(p.Status.Components, func(c v1alpha1.PlatformComponentStatus) bool { return string(c.Name) == name })
		if i >= 0 {
			found = p.Status.Components[i]
		}
		return i >= 0 && found.Phase == phase
	})
	return found
}

// deletePlatform deletes a Platform, and returns when it is gone.
func deletePlatform(t *testing.T, p *place.Place, name string) {
	t.Helper()
	platforms := p.Windlass.WindlassV1alpha1().Platforms()
	if err := platforms.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	platformGone(t, p, name)
}

func platformGone(t *testing.T, p *place.Place, name string) {
	t.Helper()
	world.Eventually(t, "Platform "+name+" to go", func(ctx context.Context) (bool, error) {
		_, err := p.Windlass.WindlassV1alpha1().Platforms().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), world.IgnoreNotFound(err)
	})
}

// atGone returns when there is no At of a name.
func atGone(t *testing.T, p *place.Place, namespace, name string) {
	t.Helper()
	world.Eventually(t, "At "+name+" to go", func(ctx context.Context) (bool, error) {
		_, err := p.Windlass.CnatV1().Ats(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), world.IgnoreNotFound(err)
	})
}
