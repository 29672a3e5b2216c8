package lenient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
)

// decoders returns a lenient decoder and the strict decoder below it.
func decoders() (tolerant, strict runtime.Decoder) {
	plain := scheme.Codecs.WithoutConversion()
	next := scheme.Codecs.UniversalDeserializer()
	gv := schema.GroupVersions{v1alpha1.SchemeGroupVersion}
	return lenient.Serializer(plain, scheme.Scheme, false).DecoderToVersion(next, gv), plain.DecoderToVersion(next, gv)
}

// app returns an App in JSON. spec has further fields of its spec, after a comma.
func app(spec string) string {
	return `{"apiVersion":"windlass.dev/v1alpha1","kind":"App","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7","generation":3},` +
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
			if want, got := decode(t, strict, app(spec)), decode(t, tolerant, app(spec)); !equality.Semantic.DeepEqual(want, got) {
				t.Errorf("it is %v, want %v", got, want)
			}
		})
	}
}

func TestDecodeOmitsAndNamesUnreadableFields(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	for name, tt := range map[string]struct{ spec, want string }{
		"a quantity of two sorts":          {`,"resources":{"requests":{"cpu":"1e5.5"}}`, `Field spec.resources.requests[cpu] has the value "1e5.5"`},
		"a quantity that is slow":          {`,"resources":{"requests":{"cpu":"1e-100000000"}}`, `Field spec.resources.requests[cpu]`},
		"a number that is slow":            {`,"resources":{"limits":{"cpu":1e-100000000}}`, `Field spec.resources.limits[cpu]`},
		"a quantity behind white space":    {`,"resources":{"limits":{"cpu": "  1e-100000000 "}}`, `Field spec.resources.limits[cpu]`},
		"a quantity of very many digits":   {`,"resources":{"limits":{"cpu":"` + strings.Repeat("9", 1<<20) + `"}}`, `Field spec.resources.limits[cpu] has the value "9999`},
		"a divisor":                        {`,"env":[{"name":"A"},{"name":"B","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1e5.5"}}}]`, `Field spec.env[1].valueFrom.resourceFieldRef.divisor`},
		"an integer beyond its type":       {`,"replicas":99999999999`, `Field spec.replicas has the value 99999999999`},
		"a list where an object belongs":   {`,"resources":[1]`, `Field spec.resources has the value [1]`},
		"a string where a list belongs":    {`,"args":"x"`, `Field spec.args has the value "x"`},
		"a long path and a long value":     {`,"resources":{"limits":{"` + strings.Repeat("p", 1<<16) + `":"` + strings.Repeat("ü", 1<<16) + `"}}`, `Field spec.resources.limits[ppp`},
		"two of them":                      {`,"replicas":"x","resources":{"requests":{"cpu":"1e5.5"}}`, `Further invalid fields: 1.`},
		"a quantity and a slow annotation": {`,"replicas":"1e99999"`, `Field spec.replicas`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decode(t, tolerant, app(tt.spec))
			why := controller.UnreadableIn(got)
			if why == nil || why.Reason != lenient.ReasonUnreadable || why.Identity || !strings.Contains(why.Message, tt.want) {
				t.Fatalf("it is marked with %+v, want a message with %s", why, tt.want)
			}
			if len(why.Message) > 1<<10 {
				t.Errorf("its message has %d bytes", len(why.Message))
			}
			if got.Name != "web" || got.UID != "u" || got.ResourceVersion != "7" || got.Spec.Image != "shop:1" || got.Status.ObservedGeneration != 2 {
				t.Errorf("of what can be read there is only %+v", got)
			}
		})
	}
}

func TestDecodeOfInvalidSpecKeepsIdentityAndStatus(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	got := decode(t, tolerant, strings.Replace(app(""), `"spec":{"image":"shop:1"}`, `"spec":7`, 1))
	if why := controller.UnreadableIn(got); why == nil || !strings.Contains(why.Message, "Field spec has the value 7") {
		t.Errorf("it is marked with %+v", why)
	}
	if got.Name != "web" || got.Status.ObservedGeneration != 2 {
		t.Errorf("it is %+v", got)
	}
}

// TestDecodeMarksObjectThatOnlyTheStrictDecoderRejects uses a decoder that rejects a spec whose values all fit their types.
func TestDecodeMarksObjectThatOnlyTheStrictDecoderRejects(t *testing.T) {
	t.Parallel()
	next, gv := scheme.Codecs.UniversalDeserializer(), schema.GroupVersions{v1alpha1.SchemeGroupVersion}
	picky := lenient.Serializer(pickySerializer{scheme.Codecs.WithoutConversion()}, scheme.Scheme, false).DecoderToVersion(next, gv)
	for name, spec := range map[string]string{"a spec that is decoded at once": ``, "a spec that may be slow to decode": `,"args":["1e12345"]`} {
		got := decode(t, picky, app(spec))
		if why := controller.UnreadableIn(got); why == nil || !strings.Contains(why.Message, "because it cannot be read: no image is good enough.") || got.Name != "web" {
			t.Errorf("%s: %s is marked with %+v", name, got.Name, why)
		}
	}
}

// pickySerializer has decoders that reject objects with an image.
type pickySerializer struct{ runtime.NegotiatedSerializer }

func (s pickySerializer) DecoderToVersion(next runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return pickyDecoder{s.NegotiatedSerializer.DecoderToVersion(next, gv)}
}

type pickyDecoder struct{ runtime.Decoder }

func (d pickyDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if strings.Contains(string(data), `"image"`) {
		return nil, nil, errors.New("no image is good enough")
	}
	return d.Decoder.Decode(data, defaults, into)
}

func TestDecodeRemovesForgedMark(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	forged := strings.Replace(app(""), `"name":"web"`, `"name":"web","annotations":{"windlass.dev/unreadable":"{}","kept":"yes"}`, 1)
	for name, got := range map[string]*v1alpha1.App{
		"alone": decode(t, tolerant, forged), "with a text that looks slow": decode(t, tolerant, strings.Replace(forged, `"yes"`, `"1e12345"`, 1)),
	} {
		if controller.UnreadableIn(got) != nil || got.Annotations["kept"] == "" {
			t.Errorf("%s: its annotations are %v", name, got.Annotations)
		}
	}
}

func TestDecodeOfListMarksOnlyUnreadableItem(t *testing.T) {
	t.Parallel()
	tolerant, _ := decoders()
	bad := app(`,"resources":{"requests":{"cpu":"1e5.5"}}`)
	text := fmt.Sprintf(`{"apiVersion":"windlass.dev/v1alpha1","kind":"AppList","metadata":{"resourceVersion":"9"},"items":[%s,%s,%s]}`, app(""), bad, app(""))
	list := &v1alpha1.AppList{}
	if _, _, err := tolerant.Decode([]byte(text), nil, list); err != nil {
		t.Fatal(err)
	}
	if list.ResourceVersion != "9" || len(list.Items) != 3 {
		t.Fatalf("it is %+v", list)
	}
	for i := range list.Items {
		if is := controller.UnreadableIn(&list.Items[i]) != nil; is != (i == 1) || list.Items[i].Spec.Image != "shop:1" {
			t.Errorf("item %d is %+v", i, list.Items[i])
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
	for _, text := range []string{"", "1", "null", "{", `{"kind":"Unknown","apiVersion":"v1"}`} {
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
		if controller.UnreadableIn(got) != nil {
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
