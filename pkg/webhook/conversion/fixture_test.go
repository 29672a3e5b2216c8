package conversion

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/randfill/bytesource"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	cnatv1alpha1 "windlass.dev/windlass/pkg/apis/cnat/v1alpha1"
)

// seeds are the first inputs of the fuzz targets in this package. Without -fuzz, `go test` generates no other inputs.
var seeds = []string{
	"", "a", "windlass", "\x00\x01\x02\x03\x04\x05\x06\x07", "0123456789abcdef0123456789abcdef",
	strings.Repeat("\xff\x00", 200),
}

// fillV1 returns an At of v1 made from arbitrary bytes. It can have any content that its types allow, valid
// or not. Special cases are more frequent than in random data.
func fillV1(data []byte) *cnatv1.At {
	at := &cnatv1.At{}
	filler(data).Fill(at)
	at.TypeMeta = metav1.TypeMeta{APIVersion: versionV1, Kind: kind}
	return at
}

// fillV1alpha1 returns an At of v1alpha1 made from arbitrary bytes.
func fillV1alpha1(data []byte) *cnatv1alpha1.At {
	at := &cnatv1alpha1.At{}
	filler(data).Fill(at)
	at.TypeMeta = metav1.TypeMeta{APIVersion: versionV1alpha1, Kind: kind}
	return at
}

func filler(data []byte) *randfill.Filler {
	return randfill.New().RandSource(bytesource.New(data)).NilChance(.5).NumElements(0, 3).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(`{"f:spec":{"f:` + pick(c, "command", "image") + `":{}}}`)
		},
		func(e *runtime.RawExtension, c randfill.Continue) {
			e.Raw = []byte(pick(c, `{}`, `{"containers":[{"name":"command"}]}`, `{"a":{"b":[1,null,"c"]}}`))
		},
		func(s *cnatv1.AtSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			if c.Bool() {
				s.Command = []string{"/bin/sh", "-c", c.String(0)}
				s.Args = pick(c, nil, nil, []string{}, []string{"x"})
			}
		},
		func(s *cnatv1.AtStatus, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Phase = pick(c, "", cnatv1.AtPending, cnatv1.AtRunning, cnatv1.AtDone, "PENDING", s.Phase)
		},
		func(s *cnatv1alpha1.AtStatus, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Phase = pick(c, "", cnatv1alpha1.PhasePending, cnatv1alpha1.PhaseDone, "Running", c.String(0))
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(m)
			if text := pick(c, "", "not JSON", "{}", `{"status":{"podName":"p"}}`, `{"tooLarge":true}`); text != "" {
				metav1.SetMetaDataAnnotation(m, Annotation, text)
			}
		},
	)
}

func pick[T any](c randfill.Continue, from ...T) T { return from[c.Intn(len(from))] }

func mustMarshal(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("encoding %T: %v", value, err)
	}
	return raw
}

func mustUnmarshal[T any](t testing.TB, raw []byte) *T {
	t.Helper()
	value := new(T)
	if err := json.Unmarshal(raw, value); err != nil {
		t.Fatalf("decoding %s as %T: %v", raw, value, err)
	}
	return value
}

func mustConvert(t testing.TB, raw []byte, desired string) []byte {
	t.Helper()
	converted, err := Convert(raw, desired)
	if err != nil {
		t.Fatalf("converting to %s: %v\n%s", desired, err, raw)
	}
	return converted
}

// annotationOf returns the annotation that the conversion of at to v1alpha1 writes.
func annotationOf(t testing.TB, at *cnatv1.At) string {
	t.Helper()
	old := mustConvert(t, mustMarshal(t, at), versionV1alpha1)
	return mustUnmarshal[cnatv1alpha1.At](t, old).Annotations[Annotation]
}

// checkSame compares two objects as Go values and as JSON.
func checkSame[T any](t testing.TB, want, got []byte) {
	t.Helper()
	wanted, gotten := mustUnmarshal[T](t, want), mustUnmarshal[T](t, got)
	if !equality.Semantic.DeepEqual(wanted, gotten) {
		t.Errorf("not the same (-want +got):\n%s", cmp.Diff(wanted, gotten))
	}
	if diff := cmp.Diff(string(mustMarshal(t, wanted)), string(mustMarshal(t, gotten))); diff != "" {
		t.Errorf("not the same JSON (-want +got):\n%s", diff)
	}
}

// checkJSON compares two JSON texts, regardless of white space and the order of fields.
func checkJSON(t testing.TB, want, got []byte) {
	t.Helper()
	if diff := cmp.Diff(*mustUnmarshal[any](t, want), *mustUnmarshal[any](t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
