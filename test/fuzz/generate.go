package fuzz

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Seed selects the objects: the same seed and the same schemas always generate the same objects.
type Seed uint64

// Surroundings describe the cluster in which the objects are created.
type Surroundings struct {
	// Namespaces are the namespaces of the objects, and the values of spec.namespace of Platforms.
	Namespaces []string
	// Names are the names that references use, mostly names of objects that exist in each namespace.
	Names []string
}

// Object returns the object with the given number and revision. A higher revision has the same name as revision 0, and
// another spec. Immutable fields of the higher revision mostly have the values of revision 0.
func (s Surroundings) Object(seed Seed, kind Kind, number, revision int) *unstructured.Unstructured {
	identity := random(seed, kind.Name, number, -1)
	name := objectName(identity, kind, number)
	namespace := ""
	if kind.Namespaced {
		namespace = one(identity, s.Namespaces)
	}
	kind = kind.In(kind.Served[weighted(identity, 3, 1)%len(kind.Served)])

	m := newMaker(random(seed, kind.Name, number, revision), s, number)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	schema := kind.Schema.Properties["spec"]
	spec := m.value(&schema, "")
	m.repair(kind.Name, spec)
	if revision > 0 && m.chance(0.9) {
		spec = unchanged(&schema, s.Object(seed, kind, number, 0).Object["spec"], spec)
	}
	object.Object["spec"] = spec
	object.SetAPIVersion(kind.Resource.GroupVersion().String())
	object.SetKind(kind.Name)
	object.SetLabels(m.labels())
	object.SetAnnotations(m.annotations())
	object.SetFinalizers(m.finalizers())
	object.SetOwnerReferences(m.owners())
	object.SetName(name)
	object.SetNamespace(namespace)
	return object
}

// random returns a source of random numbers that depends only on its arguments.
func random(seed Seed, kind string, number, revision int) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(kind + "/" + strconv.Itoa(number) + "/" + strconv.Itoa(revision)))
	return rand.New(rand.NewPCG(uint64(seed), hash.Sum64()))
}

// maker generates the values of one object.
type maker struct {
	*rand.Rand
	surroundings Surroundings
	// full is the share of optional fields that are set. strange is the share of values that are odd.
	full, strange float64
	// budget is the number of bytes that remain for long values.
	budget int
	names  []string
}

func newMaker(r *rand.Rand, s Surroundings, number int) *maker {
	m := &maker{Rand: r, surroundings: s}
	// Most objects have few odd values: one bad value makes the API server reject the whole object, and its other values
	// are not tested.
	m.full = []float64{0, 0.1, 0.3, 0.6, 1}[weighted(r, 1, 4, 5, 3, 1)]
	m.strange = []float64{0.05, 0.2, 0.5, 1}[weighted(r, 3, 5, 3, 1)]
	m.budget = []int{2 << 10, 40 << 10, 300 << 10}[weighted(r, 12, 4, 1)]
	m.names = append(m.names, s.Names...)
	for _, neighbour := range []int{number - 1, number, number + 1} {
		name := "o" + strconv.Itoa(max(neighbour, 0))
		m.names = append(m.names, name, name+"-credentials", name+"-config")
	}
	return m
}

// odd decides at random whether the next value is odd.
func (m *maker) odd() bool { return m.Float64() < m.strange }

// chance returns true with the probability share.
func (m *maker) chance(share float64) bool { return m.Float64() < share }

// one returns a random element of values.
func one[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// weighted returns a random index into weights, with a probability in proportion to the weight.
func weighted(r *rand.Rand, weights ...int) int {
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	at := r.IntN(sum)
	for i, weight := range weights {
		if at -= weight; at < 0 {
			return i
		}
	}
	return 0
}
