package fuzz

import (
	"math/rand/v2"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nameLimits maps a kind to the largest length of the names of its objects, in characters.
var nameLimits = map[string]int{"App": 63, "At": 249, "Database": 52, "ExternalDatabase": 241, "Platform": 61}

// objectName returns the name of the object with a number, for example "o7". One of ten names has a suffix that
// extends the name to its limit. Short names are the same for all kinds.
func objectName(r *rand.Rand, kind Kind, number int) string {
	name := "o" + strconv.Itoa(number)
	if weighted(r, 9, 1) == 1 {
		name += "-" + strings.Repeat("x", nameLimits[kind.Name]-len(name)-1)
	}
	return name
}

// oddLabels are labels by which the operator, Kubernetes or other tools recognise their objects, and labels with
// unusual keys or values.
var oddLabels = [][2]string{
	{"app.kubernetes.io/managed-by", "windlass"}, {"app.kubernetes.io/managed-by", "Helm"}, {
		"app.kubernetes.io/name", "app",
	}, {"app.kubernetes.io/name", ""},
	{"app.kubernetes.io/instance", "o1"}, {"app.kubernetes.io/part-of", "o1"}, {"argocd.argoproj.io/instance", "shop"},
	{"pod-template-hash", "0"}, {"controller-uid", "0"},
	{"windlass.dev/platform", "o1"}, {"windlass.dev/component", "a"}, {
		"windlass.dev/app", "o1",
	}, {"statefulset.kubernetes.io/pod-name", "o1-0"},
	{"a", ""}, {"0", "0"}, {"true", "true"}, {"A.b_c-d", "1e3"}, {strings.Repeat("k", 63), strings.Repeat("v", 63)},
	{strings.Repeat("k.", 126) + "k/" + strings.Repeat("k", 63), "null"},
}

func (m *maker) labels() map[string]string { return m.pairs(oddLabels) }

// oddAnnotations are annotations of the operator and of other tools. Most of them have values that neither the operator
// nor these tools set.
var oddAnnotations = [][2]string{
	{"windlass.dev/paused", "false"}, {"windlass.dev/paused", "TRUE"}, {
		"windlass.dev/paused", "",
	}, {"windlass.dev/paused", "true"},
	{"windlass.dev/last-applied", "{}"}, {"windlass.dev/last-applied", "{"}, {"windlass.dev/last-applied", "null"},
	{"windlass.dev/last-applied", `{"spec":{"replicas":"x"}}`}, {"windlass.dev/last-applied", `{"spec":[]}`},
	{"windlass.dev/made-for", "App/o1"}, {"windlass.dev/made-for", "x"}, {
		"windlass.dev/depends-on", "a,,b",
	}, {"windlass.dev/depends-on", "[]"}, {"windlass.dev/depends-on", "o1"},
	{"windlass.dev/inputs", "x"}, {"windlass.dev/inputs-digest", "x"}, {
		"windlass.dev/template-digest", "x",
	}, {"windlass.dev/unknown", "x"},
	{"cnat.programming-kubernetes.info/attempt", "-1"}, {
		"cnat.programming-kubernetes.info/v1", "{",
	}, {"cnat.programming-kubernetes.info/v1", `{"spec":{"command":["x"]}}`}, {
		"cnat.programming-kubernetes.info/v1", `{"tooLarge":true}`,
	},
	{
		"cnat.programming-kubernetes.info/v1", `{"spec":{"suspend":true,"resources":{"limits":{"cpu":"x"}}}}`,
	}, {"cnat.programming-kubernetes.info/v1", `{"annotation":"x"}`},
	{"kubectl.kubernetes.io/last-applied-configuration", "{"}, {
		"deployment.kubernetes.io/revision", "x",
	}, {"pv.kubernetes.io/bind-completed", "no"}, {"kubectl.kubernetes.io/restartedAt", "never"},
}

func (m *maker) annotations() map[string]string {
	made := m.pairs(oddAnnotations)
	if m.chance(0.05) {
		if made == nil {
			made = map[string]string{}
		}
		made["example.com/odd"] = m.oddText(anything)
	}
	return made
}

// pairs returns some of the given pairs as a map, or nil.
func (m *maker) pairs(from [][2]string) map[string]string {
	if !m.odd() {
		return nil
	}
	made := map[string]string{}
	for range 1 + m.IntN(3) {
		pair := one(m.Rand, from)
		made[pair[0]] = pair[1]
	}
	return made
}

// Finalizer is a finalizer that only the test removes.
const Finalizer = "example.com/odd"

func (m *maker) finalizers() []string {
	if !m.chance(m.strange * 0.2) {
		return nil
	}
	return one(m.Rand, [][]string{
		{Finalizer}, {Finalizer, Finalizer}, {"windlass.dev/database"}, {
			"windlass.dev/platform",
		}, {"windlass.dev/externaldatabase"}, {Finalizer, "windlass.dev/app"}, {metav1.FinalizerOrphanDependents},
	})
}

// owners returns nil or a reference to an owner that does not exist. The garbage collector deletes an object with this
// reference.
func (m *maker) owners() []metav1.OwnerReference {
	if !m.chance(m.strange * 0.05) {
		return nil
	}
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: "windlass.dev/v1alpha1", Kind: one(m.Rand, []string{"Platform", "App"}), Name: one(m.Rand, m.names),
		UID: types.UID("00000000-0000-0000-0000-000000000000"), Controller: &yes,
	}}
}
