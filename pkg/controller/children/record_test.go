package children_test

import (
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// laden returns a desired Deployment with long arguments, variables and other fields.
func laden() *appsv1.Deployment {
	d := crewed()
	for i := range 3000 {
		deck(d).Args = append(deck(d).Args, strings.Repeat("x", 100)+strconv.Itoa(i))
	}
	deck(d).Env = append(deck(d).Env, variable("LONG", strings.Repeat("y", 100_000)))
	deck(d).Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	return d
}

// The API server limits the annotations of an object to 256 KiB.
func TestRecordOfLongValuesStaysSmall(t *testing.T) {
	all := children.Type[*appsv1.Deployment]{}
	record, err := all.RecordOf(laden())
	if err != nil || len(record) > 2048 {
		t.Errorf("the record has %d bytes (%v)", len(record), err)
	}
	if again, err := all.RecordOf(laden()); again != record || err != nil {
		t.Errorf("the record is %s, and then %s (%v)", record, again, err)
	}
}

// A shortened record still has the names of the fields that were desired.
func TestPatchRemovesUndesiredFieldsOfLargeChild(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment){
		"nothing":         func(*appsv1.Deployment) {},
		"arguments":       func(d *appsv1.Deployment) { deck(d).Args = nil },
		"one argument":    func(d *appsv1.Deployment) { deck(d).Args = deck(d).Args[1:] },
		"a long variable": func(d *appsv1.Deployment) { deck(d).Env = deck(d).Env[:2] },
		"a variable":      func(d *appsv1.Deployment) { deck(d).Env = deck(d).Env[1:] },
		"a limit":         func(d *appsv1.Deployment) { deck(d).Resources = corev1.ResourceRequirements{} },
		"a port":          func(d *appsv1.Deployment) { deck(d).Ports = nil },
		"a volume":        func(d *appsv1.Deployment) { pod(d).Volumes, deck(d).VolumeMounts = nil, nil },
		"a pull secret":   func(d *appsv1.Deployment) { pod(d).ImagePullSecrets = nil },
		"a label":         func(d *appsv1.Deployment) { d.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			added := variable("INJECTED", "yes")
			live, wanted := served(t, laden()), laden()
			deck(live).Env = append(deck(live).Env, added)
			change(wanted)
			live = puts(t, wanted, live)
			ends := served(t, wanted)
			deck(ends).Env = append(deck(ends).Env, added)
			controllertest.Equal(t, "the child", ordered(ends), ordered(live))
			if _, patch, err := new(children.Type[*appsv1.Deployment]).Compare(wanted, live); patch != nil || err != nil {
				t.Errorf("it is patched once more: %.1000s (%v)", patch, err)
			}
		})
	}
}
