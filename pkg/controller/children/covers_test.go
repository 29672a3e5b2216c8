package children_test

import (
	"encoding/json"
	"maps"
	mathrand "math/rand"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/client-go/kubernetes/scheme"

	"windlass.dev/windlass/pkg/controller/children"
)

// If isAsWanted finds a child in its desired state, a merge must find the same, whatever other clients have
// changed, removed or added.
func TestCompareSkipsOnlyEmptyPatches(t *testing.T) {
	t.Run("ConfigMap", func(t *testing.T) { compareMany[corev1.ConfigMap](t) })
	t.Run("Secret", func(t *testing.T) { compareMany[corev1.Secret](t) })
	t.Run("Service", func(t *testing.T) { compareMany[corev1.Service](t) })
	t.Run("PersistentVolumeClaim", func(t *testing.T) { compareMany[corev1.PersistentVolumeClaim](t) })
	t.Run("Deployment", func(t *testing.T) { compareMany[appsv1.Deployment](t) })
	t.Run("StatefulSet", func(t *testing.T) { compareMany[appsv1.StatefulSet](t) })
	t.Run("Ingress", func(t *testing.T) { compareMany[networkingv1.Ingress](t) })
	t.Run("HorizontalPodAutoscaler", func(t *testing.T) { compareMany[autoscalingv2.HorizontalPodAutoscaler](t) })
	t.Run("PodDisruptionBudget", func(t *testing.T) { compareMany[policyv1.PodDisruptionBudget](t) })
}

// pointerTo is the pointer type of a child's struct.
type pointerTo[S any] interface {
	*S
	children.Object
}

func compareMany[S any, T pointerTo[S]](t *testing.T) {
	fuzz := fuzzer.FuzzerFor(metafuzzer.Funcs, mathrand.NewSource(1), scheme.Codecs).NilChance(0.7).NumElements(1, 2)
	random, all := rand.New(rand.NewPCG(1, 2)), children.Type[T]{}
	filled := func() map[string]any {
		object := new(S)
		fuzz.Fill(object)
		T(object).SetManagedFields(nil)
		return read[map[string]any](t, object)
	}
	const rounds = 80
	left, asWanted := 0, 0
	for range rounds {
		fields := filled()
		want, live := read[S](t, fields), read[S](t, fields)
		record, err := all.RecordOf(&want)
		if err != nil {
			t.Fatal(err)
		}
		annotations := map[string]string{children.RecordAnnotation: record}
		maps.Copy(annotations, T(&want).GetAnnotations())
		T(&live).SetAnnotations(annotations)
		changed := read[map[string]any](t, live)
		for range random.IntN(3) {
			disturb(random, changed, filled())
		}
		live = read[S](t, changed)
		is, patch, err := all.Compare(&want, &live)
		if is && (patch != nil || err != nil) {
			t.Fatalf("it is found to be as wanted, and a merge says %s (%v)\nwanted: %+v\nis: %+v", patch, err, want, live)
		}
		if patch == nil && err == nil {
			left++
		}
		if is {
			asWanted++
		}
	}
	t.Logf("of %d, a merge comes to nothing for %d; %d of those are found without", rounds, left, asWanted)
	if asWanted < left*9/10 || left > rounds*9/10 {
		t.Errorf("of %d, a merge comes to nothing for %d; %d of those are found without", rounds, left, asWanted)
	}
}

// read encodes from as JSON and decodes it as an S.
func read[S any](t *testing.T, from any) (object S) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// disturb changes one random field of an object: it removes the field, sets it to the value in another
// object, or appends the items of the list in another object.
func disturb(random *rand.Rand, fields, another map[string]any) {
	keys := maps.Clone(fields)
	maps.Copy(keys, another)
	names := slices.Sorted(maps.Keys(keys))
	if len(names) == 0 {
		return
	}
	name := names[random.IntN(len(names))]
	switch is := fields[name].(type) {
	case map[string]any:
		others, _ := another[name].(map[string]any)
		disturb(random, is, others)
	case []any:
		others, _ := another[name].([]any)
		item, isMap := is[0].(map[string]any)
		if len(others) == 0 || !isMap || random.IntN(4) == 0 {
			fields[name] = append(is, others...)
			return
		}
		disturb(random, item, others[0].(map[string]any))
	default:
		if fields[name] = another[name]; another[name] == nil {
			delete(fields, name)
		}
	}
}
