package platform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestStalled checks when a Platform is Stalled, because nothing happens until somebody changes
// something, and when it is only Degraded, because other components make progress.
func TestStalled(t *testing.T) {
	removedDB := in(v1alpha1.Removed, database("db"))
	for name, c := range map[string]struct {
		spec              []v1alpha1.PlatformComponent
		there             []there
		degraded, stalled bool
	}{
		"one that starts":                              {spec: []v1alpha1.PlatformComponent{app("web")}},
		"one that has failed, and goes on":             {[]v1alpha1.PlatformComponent{app("web")}, []there{{app("web"), "failed"}}, true, false},
		"one that is Stalled":                          {[]v1alpha1.PlatformComponent{app("web")}, []there{{app("web"), "stalled"}}, true, true},
		"one that is Stalled beside one that starts":   {[]v1alpha1.PlatformComponent{app("web"), app("docs")}, []there{{app("web"), "stalled"}}, true, false},
		"one that is Stalled and one that needs it":    {[]v1alpha1.PlatformComponent{app("web"), app("docs", "web")}, []there{{app("web"), "stalled"}}, true, true},
		"one that was Stalled before it was changed":   {[]v1alpha1.PlatformComponent{app("web")}, []there{{app("web"), "old"}}, false, false},
		"somebody else's that is Stalled":              {[]v1alpha1.PlatformComponent{in(v1alpha1.Unmanaged, app("web"))}, []there{{app("web"), "stalled"}}, false, false},
		"a name that is taken":                         {[]v1alpha1.PlatformComponent{app("web")}, []there{{app("web"), "foreign"}}, true, true},
		"a name that is taken, beside one that starts": {[]v1alpha1.PlatformComponent{app("web"), app("docs")}, []there{{app("web"), "foreign"}}, true, false},
		"one that needs what is Removed":               {[]v1alpha1.PlatformComponent{app("web", "db"), removedDB}, nil, true, true},
		"one that needs what is being removed":         {[]v1alpha1.PlatformComponent{app("web", "db"), removedDB}, []there{{database("db"), "going"}}, false, false},
		"one that is Removed, and needed":              {[]v1alpha1.PlatformComponent{app("web", "db"), removedDB}, []there{{database("db"), "ready"}, {app("web", "db"), "ready"}}, true, true},
		"one that waits for what is Unmanaged":         {[]v1alpha1.PlatformComponent{app("web", "db"), in(v1alpha1.Unmanaged, database("db"))}, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(c.spec...))
			w.house()
			for _, child := range c.there {
				w.has(child.PlatformComponent, child.state)
			}
			_, _ = w.pass()
			platform := w.platform()
			is := func(kind string) bool { return strings.HasPrefix(condition(platform, kind), "True") }
			controllertest.Equal(t, "Degraded", c.degraded, is("Degraded"))
			controllertest.Equal(t, "Stalled", c.stalled, is("Stalled"))
			if is("Stalled") && is("Progressing") {
				t.Error("it is Stalled and Progressing")
			}
			controllertest.Equal(t, "phase", c.degraded, platform.Status.Phase == v1alpha1.PlatformFailed)
		})
	}
}

func TestARefusalIsNotAskedForAgainAtOnce(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "App"}, "shop-web", nil)
	forbidden := apierrors.NewForbidden(v1alpha1.Resource("apps"), "shop-web", fmt.Errorf("no right"))
	for name, c := range map[string]struct {
		err    error
		then   func(w *world)
		repeat bool
	}{
		"nothing has happened":                               {err: invalid},
		"nor with one that is forbidden":                     {err: forbidden},
		"a moment later":                                     {err: invalid, then: func(w *world) { w.clock.SetTime(w.clock.Now().Add(time.Minute)) }},
		"a while later":                                      {err: invalid, then: func(w *world) { w.clock.SetTime(w.clock.Now().Add(6 * time.Minute)) }, repeat: true},
		"a while later, where it was forbidden":              {err: forbidden, then: func(w *world) { w.clock.SetTime(w.clock.Now().Add(31 * time.Second)) }, repeat: true},
		"the Platform has changed":                           {err: invalid, then: func(w *world) { w.change(func(p *v1alpha1.Platform) { p.Generation = 2 }) }, repeat: true},
		"an error of the server is none":                     {err: apierrors.NewInternalError(fmt.Errorf("no")), repeat: true},
		"its labels, which are its children's, have changed": {err: invalid, then: func(w *world) { w.change(func(p *v1alpha1.Platform) { p.Labels = map[string]string{"team": "a"} }) }, repeat: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(app("web")))
			w.house()
			w.journal.FailNext("create", "apps", c.err)
			_, first := w.pass()
			if c.then != nil {
				c.then(w)
			}
			writes, again := w.pass()
			controllertest.Equal(t, "asked again", c.repeat, len(writes) > 0 && writes[0] == "create apps shops/shop-web")
			if !c.repeat && (again == nil || again.Error() != first.Error()) {
				t.Errorf("the second pass ended with %v", again)
			}
		})
	}
}

func TestARemovalThatIsRefusedIsNotAskedForAgainAtOnce(t *testing.T) {
	w := newWorld(t, example(in(v1alpha1.Removed, app("web"))))
	w.house()
	w.has(app("web"), "ready")
	w.journal.FailNext("delete", "apps", apierrors.NewForbidden(v1alpha1.Resource("apps"), "shop-web", fmt.Errorf("no right")))
	writes, _ := w.pass()
	controllertest.Equal(t, "writes", []string{"delete apps shops/shop-web", status}, writes)
	writes, _ = w.pass()
	controllertest.Equal(t, "writes of the next pass", nil, writes)
	w.clock.SetTime(w.clock.Now().Add(forbiddenRetry))
	writes, _ = w.pass()
	controllertest.Equal(t, "the first write after a while", "delete apps shops/shop-web", writes[0])
}

func TestAllIsSaidOfASpecThatIsRefused(t *testing.T) {
	w := newWorld(t, example(app("a", "b"), app("b", "a"), app("c"), in(v1alpha1.Removed, app("d")), in(v1alpha1.Unmanaged, app("e")), in(v1alpha1.Removed, app("f"))))
	w.house()
	for name, state := range map[string]string{"a": "ready", "c": "failed", "e": "released", "f": "ready"} {
		w.has(app(name), state)
	}
	writes, _ := w.pass()
	controllertest.Equal(t, "writes", []string{status}, writes)
	controllertest.Equal(t, "components", []string{
		"a App Managed Available", "b App Managed Waiting InvalidSpec", "c App Managed NotYet", "d App Removed Removed", "e App Unmanaged NotYet", "f App Removed Waiting InvalidSpec",
	}, says(w.platform()))
	controllertest.Equal(t, "ready", []int32{3, 1}, []int32{w.platform().Status.ManagedComponents, w.platform().Status.ReadyComponents})
}

func TestAMessageFindsRoom(t *testing.T) {
	w := newWorld(t, example(app("a"), app("b"), app("c"), app("d"), app("e"), app("f"), app("g")))
	w.house()
	long := v1alpha1.PlatformComponent{Name: "a", App: &v1alpha1.AppSpec{}}
	w.has(long, "pending")
	child, err := w.windlass.WindlassV1alpha1().Apps("shops").Get(t.Context(), "shop-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	child.Status.Conditions[0].Message = strings.Repeat("é", 5000)
	if _, err := w.windlass.WindlassV1alpha1().Apps("shops").UpdateStatus(t.Context(), child, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.pass()
	message := w.platform().Status.Components[0].Message
	if len(message) > maxMessage || !strings.HasSuffix(message, "é...") {
		t.Errorf("the message has %d bytes: %s", len(message), message)
	}
	if ready := condition(w.platform(), "Ready"); !strings.HasSuffix(ready, "; and 2 more.") {
		t.Errorf("Ready is %s", ready)
	}
}

func TestWhatIsUnmanagedIsLetGoThoughTheCacheIsBehind(t *testing.T) {
	platform := example(in(v1alpha1.Unmanaged, app("web")), in(v1alpha1.Unmanaged, app("none")))
	w := newWorld(t, platform)
	platform.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if err := w.windlass.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("platforms"), platform, ""); err != nil {
		t.Fatal(err)
	}
	w.fill()
	w.has(app("web"), "ready") // the cache has not observed it
	before := len(w.journal.Writes())
	_, err := w.pipeline.Sync(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{"patch apps shops/shop-web", "patch platforms shop"}, w.journal.Writes()[before:])
}
