package children_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// If an upgrade changed the format of records, it would patch every child.
func TestRecordFormatIsStable(t *testing.T) {
	const as = `{"metadata":{"name":"boat","namespace":"port","labels":{"app.kubernetes.io/managed-by":"windlass",` +
		`"crew":"four"},` +
		`"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Ship","name":"boat","uid":"ship-uid",` +
		`"controller":true,"blockOwnerDeletion":true}]},` +
		`"spec":{"replicas":2,"selector":null,"template":{"metadata":{},"spec":{"containers":[{"name":"deck",` +
		`"image":"wood:1",` +
		`"env":[{"name":"SAIL","value":"white"},{"name":"FLAG","value":"blue"}],"resources":{}}]}},"strategy":{}}}`
	controllertest.Equal(t, "record", as, record(t, want()))
}

// laden returns a desired Deployment whose Pod template is too large for a record.
func laden() *appsv1.Deployment {
	return crewed(func(d *appsv1.Deployment) {
		deck(d).Args = []string{"--short", strings.Repeat("x", 300_000)}
		deck(d).Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		d.Spec.MinReadySeconds, pod(d).ServiceAccountName = 5, "crew"
		d.Spec.Template.Labels = map[string]string{"crew": "four"}
	})
}

// The API server limits the annotations of an object to 256 KiB.
func TestRecordOfLargeTemplateIsSmall(t *testing.T) {
	text := record(t, laden())
	if len(text) > 2048 || !strings.Contains(text, "ship-uid") || !strings.Contains(text, `"replicas":2`) {
		t.Errorf("the record has %d bytes: %.2048s", len(text), text)
	}
	controllertest.Equal(t, "record of the same state", text, record(t, laden()))
}

func TestEnsureRemovesUndesiredFieldsOfLargeChild(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		stays  bool // what others added to the template
	}{
		"nothing":        {func(*appsv1.Deployment) {}, true},
		"a label":        {func(d *appsv1.Deployment) { d.Labels = nil }, true},
		"a field beside": {func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 0 }, true},
		"the arguments":  {func(d *appsv1.Deployment) { deck(d).Args = nil }, false},
		"a variable":     {func(d *appsv1.Deployment) { deck(d).Env = deck(d).Env[1:] }, false},
		"a volume":       {func(d *appsv1.Deployment) { pod(d).Volumes, deck(d).VolumeMounts = nil, nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			injected := func(d *appsv1.Deployment) {
				deck(d).Env = append(deck(d).Env, variable("INJECTED", "yes"))
				d.Spec.Template.Annotations = map[string]string{"season": "summer"}
			}
			live, wanted := madeOf(t, laden(), injected), laden()
			c.change(wanted)
			d := newDock(t, nil, []*appsv1.Deployment{live})
			d.ensure(t, wanted)
			ends := madeOf(t, wanted)
			if c.stays {
				injected(ends)
			}
			controllertest.Equal(t, "child", normal(ends), normal(d.live(t)))
			controllertest.Equal(t, "writes at rest", 0, d.ensure(t, wanted))
		})
	}
}

func TestEnsureReadsBrokenDigest(t *testing.T) {
	live := madeOf(t, laden())
	_, digest, _ := strings.Cut(live.Annotations[children.RecordAnnotation], "sha256:")
	digest, _, _ = strings.Cut(digest, `"`)
	live.Annotations[children.RecordAnnotation] = strings.Replace(live.Annotations[children.RecordAnnotation], digest,
		"", 1)
	d := newDock(t, nil, []*appsv1.Deployment{live})
	controllertest.Equal(t, "writes", 1, d.ensure(t, laden()))
	controllertest.Equal(t, "child", normal(madeOf(t, laden())), normal(d.live(t)))
}

// A value that is empty in the spec is neither in the record nor in the desired state.
func TestEnsureRemovesValueOfVariableThatIsDesiredWithoutValue(t *testing.T) {
	source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	for name, is := range map[string]corev1.EnvVar{
		"a value":  variable("DEBUG", "yes"),
		"a source": {Name: "DEBUG", ValueFrom: source},
	} {
		t.Run(name, func(t *testing.T) {
			desired := crewed(func(d *appsv1.Deployment) { deck(d).Env = append(deck(d).Env, variable("DEBUG", "")) })
			live := madeOf(t, desired, func(d *appsv1.Deployment) { deck(d).Env[2] = is })
			d := newDock(t, nil, []*appsv1.Deployment{live})
			controllertest.Equal(t, "writes", 1, d.ensure(t, desired))
			controllertest.Equal(t, "child", normal(madeOf(t, desired)), normal(d.live(t)))
			controllertest.Equal(t, "writes at rest", 0, d.ensure(t, desired))
		})
	}
}

// A user who may write a child may also write its record.
func TestEnsureReplacesBrokenRecord(t *testing.T) {
	for _, record := range []string{
		"null", "[]", "{", `{"metadata":null}`, `{"metadata":{"ownerReferences":3}}`, `{"spec":null}`, `{"spec":[7]}`,
		`{"spec":{"template":{"spec":{"containers":[null]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"deck","env":[{"name":{}}]}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":"deck","$patch":"replace"}}}}`,
	} {
		for kind, isCustom := range map[string]bool{"built-in": false, "custom": true} {
			t.Run(record+" of a "+kind+" type", func(t *testing.T) {
				first := newDock(t, nil, nil)
				first.Custom = isCustom
				first.ensure(t, crewed())
				live := first.live(t).DeepCopy()
				live.UID, live.ResourceVersion = "child-uid", "7"
				live.Annotations[children.RecordAnnotation], deck(live).Env[0].Value = record, "black"
				d := newDock(t, nil, []*appsv1.Deployment{live})
				d.Custom = isCustom
				d.ensure(t, crewed())
				controllertest.Equal(t, "child", normal(first.live(t)), normal(d.live(t)))
				controllertest.Equal(t, "writes at rest", 0, d.ensure(t, crewed()))
			})
		}
	}
}
