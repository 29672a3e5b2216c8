package lenient_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
)

// limited returns a decoder with the limits of caches.
func limited() k8sruntime.Decoder {
	gv := schema.GroupVersions{v1alpha1.SchemeGroupVersion}
	return lenient.Serializer(scheme.Codecs.WithoutConversion(), scheme.Scheme, true).DecoderToVersion(scheme.Codecs.UniversalDeserializer(), gv)
}

// sized returns an App in JSON with an argument of size bytes. The UID depends on n.
func sized(n, size int) string {
	return strings.Replace(app(fmt.Sprintf(`,"args":[%q]`, strings.Repeat("x", size))), `"uid":"u"`, fmt.Sprintf(`"uid":"u%d"`, n), 1)
}

func transformed(t *testing.T, transform cache.TransformFunc, app *v1alpha1.App) *v1alpha1.App {
	t.Helper()
	obj, err := transform(app)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*v1alpha1.App)
}

func TestTransformCachesIdentityAndStatusOfTooLargeObject(t *testing.T) {
	t.Parallel()
	transform := lenient.Transform(&budget.Budget{})
	for name, tt := range map[string]struct {
		text   string
		reason string
	}{
		"a small one":                   {sized(1, 100), ""},
		"a large one":                   {sized(2, budget.Object-1<<10), ""},
		"one that is too large":         {sized(3, budget.Object), lenient.ReasonTooLarge},
		"one with large managed fields": {strings.Replace(sized(4, 100), `"name":"web"`, `"managedFields":[{"manager":"`+strings.Repeat("m", budget.Object)+`"}],"name":"web"`, 1), ""},
		"one with many labels":          {strings.Replace(sized(5, 100), `"name":"web"`, `"labels":{"a":"`+strings.Repeat("l", budget.Object)+`"},"name":"web"`, 1), lenient.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := transformed(t, transform, decode(t, limited(), tt.text))
			why := controller.UnreadableIn(got)
			if reason := reasonOf(why); reason != tt.reason {
				t.Fatalf("it is marked with %+v, want reason %q", why, tt.reason)
			}
			if got.Name != "web" || got.ResourceVersion != "7" || got.Status.ObservedGeneration != 2 || len(got.ManagedFields) > 0 {
				t.Errorf("it is %+v", got.ObjectMeta)
			}
			if (got.Spec.Image == "") != (why != nil) || why != nil && (!why.Identity || !why.Stored || len(got.Labels) > 0) {
				t.Errorf("its spec is %.200v, and its mark %+v", got.Spec, why)
			}
		})
	}
}

// TestIdentityKeepsNamespaceOfPlatform shows that the shard of a Platform does not change when its spec is left out.
func TestIdentityKeepsNamespaceOfPlatform(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", budget.Object)
	for name, c := range map[string]struct{ spec, want string }{
		"a Platform that is too large":         {`{"namespace":"shop","components":[{"name":"` + large + `"}]}`, "shop"},
		"a spec that is no object":             {`[]`, ""},
		"a spec that is too large a text":      {`"` + large + `"`, ""},
		"a namespace that is no text":          {`{"namespace":7,"components":"` + large + `"}`, ""},
		"a namespace that no namespace can be": {`{"namespace":"` + large + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj, _, err := limited().Decode([]byte(`{"apiVersion":"windlass.dev/v1alpha1","kind":"Platform","metadata":{"name":"p"},"spec":`+c.spec+`}`), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			platform, ok := obj.(*v1alpha1.Platform)
			if !ok || platform.Spec.Namespace != c.want || len(platform.Spec.Components) > 0 || controller.UnreadableIn(platform) == nil {
				t.Errorf("%T has namespace %.100q, and is marked: %v", obj, platform.Spec.Namespace, controller.UnreadableIn(platform) != nil)
			}
		})
	}
}

func reasonOf(why *controller.Unreadable) string {
	if why == nil {
		return ""
	}
	return why.Reason
}

func TestTransformLimitsNamespace(t *testing.T) {
	t.Parallel()
	transform, held, refused := lenient.Transform(&budget.Budget{}), []*v1alpha1.App{}, 0
	for n := range 40 {
		got := transformed(t, transform, decode(t, limited(), sized(n, budget.Object-1<<10)))
		held = append(held, got)
		if reasonOf(controller.UnreadableIn(got)) == lenient.ReasonBudgetExceeded {
			refused++
		}
	}
	if want := 40 - budget.Namespace/budget.Object; refused != want {
		t.Errorf("%d exceed the budget, want %d", refused, want)
	}
	again := transformed(t, transform, decode(t, limited(), sized(0, budget.Object-1<<10)))
	if controller.UnreadableIn(again) != nil {
		t.Error("another version of an object that fits does not")
	}
	runtime.KeepAlive(held)
}

func TestTransformRemovesUnusedAnnotations(t *testing.T) {
	t.Parallel()
	text := strings.Replace(app(""), `"name":"web"`, `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","windlass.dev/paused":"true","windlass.dev/size":"99999999"},"name":"web"`, 1)
	got := transformed(t, lenient.Transform(&budget.Budget{}), decode(t, limited(), text))
	if len(got.Annotations) != 1 || got.Annotations[controller.PausedAnnotation] != "true" || got.Spec.Image == "" {
		t.Errorf("it has %v", got.Annotations)
	}
}
