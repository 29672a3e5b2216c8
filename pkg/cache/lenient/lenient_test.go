package lenient_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
)

// decoders returns a lenient decoder and the strict decoder below it.
func decoders() (tolerant, strict runtime.Decoder) {
	plain := scheme.Codecs.WithoutConversion()
	next := scheme.Codecs.UniversalDeserializer()
	gv := schema.GroupVersions{v1alpha1.SchemeGroupVersion}
	return lenient.Serializer(plain).DecoderToVersion(next, gv), plain.DecoderToVersion(next, gv)
}

// app returns an App in JSON. spec has further fields of its spec, after a comma.
func app(spec string) string {
	return `{"apiVersion":"windlass.dev/v1alpha1","kind":"App","metadata":{"name":"web","namespace":"shop","uid":"u",` +
		`"resourceVersion":"7","generation":3},` +
		`"spec":{"image":"shop:1"` + spec + `},"status":{"observedGeneration":2}}`
}

func decode(t testing.TB, d runtime.Decoder, text string) *v1alpha1.App {
	t.Helper()
	obj, _, err := d.Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return obj.(*v1alpha1.App)
}

func TestDecodeOfValidObjectMatchesStrictDecoder(t *testing.T) {
	t.Parallel()
	tolerant, strict := decoders()
	for name, spec := range map[string]string{
		"nothing special":                    ``,
		"quantities":                         `,"resources":{"requests":{"cpu":"100m","memory":64,"x.example.com/y":"1e3"}}`,
		"an exponent of zeros":               `,"resources":{"requests":{"cpu":"1e00003"}}`,
		"a text that looks like an exponent": `,"args":["1e12345","` + strings.Repeat("7", 100) + `"]`,
		"a digest":                           `,"command":["sha256:1e12345` + strings.Repeat("5", 57) + `"]`,
		"null":                               `,"resources":{"requests":{"cpu":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := decode(t, strict, app(spec)), decode(t, tolerant, app(spec))
			if !equality.Semantic.DeepEqual(want, got) {
				t.Errorf("it is %v, want %v", got, want)
			}
		})
	}
}

func TestDecodeOfUndecodableObjectKeepsMetadataAndStatus(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	of := func(spec string) string { return app("," + spec) }
	without := func(part, instead string) string { return strings.Replace(app(""), part, instead, 1) }
	const spec, status, name = `"spec":{"image":"shop:1"}`, `"status":{"observedGeneration":2}`, `"name":"web"`
	for name, tt := range map[string]struct {
		text string
		want string // a part of the cause
		lost bool   // whether the status is lost
	}{
		"a quantity of two sorts": {of(`"resources":{"requests":{"cpu":"1e5.5"}}`), "quantities must match", false},
		"a quantity that is slow": {of(`"resources":{"requests":{"cpu":"1e-100000000"}}`), "quantities must match", false},
		"a number that is slow":   {of(`"resources":{"limits":{"cpu":1e-100000000}}`), "invalid character", false},
		"a quantity behind white space": {
			of(`"resources":{"limits":{"cpu": "  1e-100000000 "}}`), "quantities must match", false,
		},
		"a quantity of very many digits": {
			of(`"resources":{"limits":{"cpu":"` + strings.Repeat("9", 1<<20) + `"}}`), "quantities must match", false,
		},
		"a quantity and a slow text": {
			of(`"args":["1e12345"],"resources":{"requests":{"cpu":"1e5.5"}}`), "quantities must match", false,
		},
		"an integer beyond its type":     {of(`"replicas":99999999999`), "spec.replicas of type int32", false},
		"a list where an object belongs": {of(`"resources":[1]`), "spec.resources", false},
		"a string where a list belongs":  {of(`"args":"x"`), "spec.args of type []string", false},
		"a spec that is no object":       {without(spec, `"spec":7`), "AppSpec", false},
		"a status that is no object":     {without(status, `"status":7`), "AppStatus", true},
		"a time that is none": {
			without(status, `"status":{"conditions":[{"lastTransitionTime":[]}]}`), "lastTransitionTime", true,
		},
		"labels that are no strings":     {without(name, name+`,"labels":{"a":1}`), "labels", false},
		"annotations that are no object": {without(name, name+`,"annotations":7`), "annotations", false},
		"a timestamp that is none":       {without(name, name+`,"deletionTimestamp":"soon"`), "soon", false},
		"odd managed fields": {
			without(name, name+`,"managedFields":[{"time":7,"fieldsV1":7}]`), "managedFields", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decode(t, tolerant, tt.text)
			mark := lenient.MarkOn(got)
			if mark == nil || mark.Reason != lenient.ReasonUnreadable || mark.StatusLost != tt.lost ||
				!strings.Contains(mark.Cause, tt.want) {
				t.Fatalf("it is marked with %+v, want a cause with %s", mark, tt.want)
			}
			if len(mark.Cause) > 256 {
				t.Errorf("its cause has %d bytes", len(mark.Cause))
			}
			if got.Name != "web" || got.UID != "u" || got.ResourceVersion != "7" || got.Spec.Image != "" ||
				(got.Status.ObservedGeneration == 2) == tt.lost {
				t.Errorf("it is %+v", got)
			}
			again := &v1alpha1.App{}
			_, _, err := tolerant.Decode([]byte(tt.text), nil, again)
			if err != nil || again.Name != "web" || again.Spec.Image != "" {
				t.Errorf("the response to a GET is %+v (%v)", again, err)
			}
		})
	}
}

// TestIdentityKeepsNamespaceOfPlatform shows that a Platform that cannot be decoded stays in its shard.
func TestIdentityKeepsNamespaceOfPlatform(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	for spec, want := range map[string]string{
		`{"namespace":"shop","components":7}`: "shop",
		`{"namespace":7,"components":7}`:      "",
		`[]`:                                  "",
	} {
		text := `{"apiVersion":"windlass.dev/v1alpha1","kind":"Platform","metadata":{"name":"p"},"spec":` + spec + `}`
		obj, _, err := tolerant.Decode([]byte(text), nil, nil)
		platform, ok := obj.(*v1alpha1.Platform)
		if err != nil || !ok || platform.Spec.Namespace != want || lenient.MarkOn(platform) == nil {
			t.Errorf("the spec %s became %+v (%v)", spec, obj, err)
		}
	}
}

func TestDecodeOfListMarksOnlyUnreadableItem(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	bad := app(`,"resources":{"requests":{"cpu":"1e5.5"}}`)
	text := fmt.Sprintf(`{"apiVersion":"windlass.dev/v1alpha1","kind":"AppList","metadata":{"resourceVersion":"9"},`+
		`"items":[%s,%s,%s]}`, app(""), bad, app(""))
	for _, into := range []runtime.Object{&v1alpha1.AppList{}, nil} { // a shard lists without a type
		decoded, _, err := tolerant.Decode([]byte(text), nil, into)
		if err != nil {
			t.Fatal(err)
		}
		list, ok := decoded.(*v1alpha1.AppList)
		if !ok || list.ResourceVersion != "9" || len(list.Items) != 3 {
			t.Fatalf("it is %+v", decoded)
		}
		for i := range list.Items {
			if is := lenient.MarkOn(&list.Items[i]) != nil; is != (i == 1) || (list.Items[i].Spec.Image == "shop:1") == is {
				t.Errorf("item %d is %+v", i, list.Items[i])
			}
		}
	}
}

func TestDecodeLeavesOtherResponsesUnchanged(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	status := `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"1e99999","reason":"NotFound","code":404}`
	for _, text := range []string{status, strings.Replace(status, "1e99999", "gone", 1)} {
		obj, _, err := tolerant.Decode([]byte(text), &schema.GroupVersionKind{Version: "v1", Kind: "Status"}, nil)
		if got, ok := obj.(*metav1.Status); err != nil || !ok || got.Code != 404 {
			t.Errorf("%s became %v (%v)", text, obj, err)
		}
	}
	for _, text := range []string{
		"", "1", "null", "{", `{"metadata":{"name":"a"}}`, `{"kind":"Unknown","apiVersion":"v1","metadata":{"name":"a"}}`,
	} {
		if obj, _, err := tolerant.Decode([]byte(text), nil, nil); err == nil {
			t.Errorf("%q became %v", text, obj)
		}
	}
}

// FuzzDecode checks that an object can be decoded with any quantity, and that an object without a mark equals
// the result of the strict decoder.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"1", "100m", "1e5.5", "1e-100000000", "", "1e+0000001", "٣", "\x00", "1E999"} {
		f.Add(seed)
	}
	tolerant, strict := decoders()
	f.Fuzz(func(t *testing.T, text string) {
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		raw := app(`,"resources":{"requests":{"cpu":` + string(value) + `}}`)
		got := decode(t, tolerant, raw)
		if lenient.MarkOn(got) != nil {
			return
		}
		if want := decode(t, strict, raw); !equality.Semantic.DeepEqual(want, got) {
			t.Errorf("it is %v, want %v", got, want)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	tolerant, strict := decoders()
	text := app(`,"resources":{"requests":{"cpu":"100m"}},"args":["` + strings.Repeat("x", 2000) + `"]`)
	for name, d := range map[string]runtime.Decoder{"lenient": tolerant, "strict": strict} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decode(b, d, text)
			}
		})
	}
}
