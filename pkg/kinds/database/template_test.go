package database

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const previousScript = "exec postgres"

// knowPreviousScript registers previousScript as the script of a previous version.
func knowPreviousScript(t *testing.T) {
	before := previousScripts
	t.Cleanup(func() { previousScripts = before })
	sum := sha256.Sum256([]byte(previousScript))
	previousScripts = append(slices.Clone(before), hex.EncodeToString(sum[:]))
}

// recorded sets the record of a StatefulSet, as the operator does.
func recorded(t *testing.T, s *appsv1.StatefulSet) *appsv1.StatefulSet {
	t.Helper()
	s.Annotations = nil
	record, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Annotations = map[string]string{children.RecordAnnotation: string(record)}
	return s
}

// byPrevious returns the StatefulSet that an operator with previousScript created.
func byPrevious(t *testing.T, db *v1alpha1.Database) *appsv1.StatefulSet {
	t.Helper()
	s := statefulSetOf(db)
	s.Spec.Template.Spec.Containers[0].Command[scriptIndex] = previousScript
	s.Spec.Template.Labels = selectorOf(db)
	return recorded(t, s)
}

func TestTemplateIsKept(t *testing.T) {
	knowPreviousScript(t)
	parameter := func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
	}
	label := func(db *v1alpha1.Database) { kindtest.MakeComponent(db, "shop", "db") }
	manual := func(db *v1alpha1.Database) { db.Spec.UpdatePolicy = v1alpha1.UpdateManual }
	both := func(changes ...func(*v1alpha1.Database)) func(*v1alpha1.Database) {
		return func(db *v1alpha1.Database) {
			for _, change := range changes {
				change(db)
			}
		}
	}
	image := withImage("postgres:17.7")
	over := withPodTemplate(`{"metadata": {"labels": {"team": "shop"}}}`)
	restart := func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} }
	noRecord := func(s *appsv1.StatefulSet) { s.Annotations = nil }
	othersImage := func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "theirs:1" }
	for name, c := range map[string]struct {
		change func(*v1alpha1.Database)
		live   func(*appsv1.StatefulSet)
		kept   bool
	}{
		"a previous template, if nothing changes":                   {kept: true},
		"a previous template, if the Database gets a label":         {change: label, kept: true},
		"a previous template, if the Database gets a parameter":     {change: parameter, kept: true},
		"a previous template, if the policy becomes Manual":         {change: manual, kept: true},
		"a previous template, if another client changes the image":  {live: othersImage, kept: true},
		"not a previous template, if the image changes":             {change: image},
		"not a previous template, if a restart is requested":        {change: restart},
		"not a previous template, if podTemplate only adds a label": {change: over},
		"with Manual, a previous template, if the image changes":    {change: both(manual, image), kept: true},
		"with Manual, a previous template, if podTemplate changes":  {change: both(manual, over), kept: true},
		"with Manual, not a previous template, at a request":        {change: both(manual, image, restart)},
		"not a previous template without its record":                {live: noRecord},
	} {
		t.Run(name, func(t *testing.T) {
			db := example()
			live := byPrevious(t, db)
			before := live.Spec.Template.DeepCopy()
			if c.live != nil {
				c.live(live)
			}
			if c.change != nil {
				c.change(db)
			}
			want := statefulSetOf(db)
			wanted := want.Spec.Template.DeepCopy()
			if c.kept {
				wanted = before
			}
			keepTemplate(db, want, live)
			if !equality.Semantic.DeepEqual(wanted, &want.Spec.Template) {
				controllertest.Equal(t, "template", wanted, &want.Spec.Template)
			}
		})
	}
}

func TestRequestedRestartStaysInTemplate(t *testing.T) {
	db := example(func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} })
	live := recorded(t, statefulSetOf(db))
	wanted := live.Spec.Template.DeepCopy()
	db.Annotations = nil
	want := statefulSetOf(db)
	keepTemplate(db, want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}

// TestPendingFieldsIgnoresValuesThatAdmissionChanged has a StatefulSet in which a policy changed what the operator
// applied.
func TestPendingFieldsIgnoresValuesThatAdmissionChanged(t *testing.T) {
	db := example(func(db *v1alpha1.Database) { db.Spec.UpdatePolicy = v1alpha1.UpdateManual })
	live := recorded(t, statefulSetOf(db))
	c := &live.Spec.Template.Spec.Containers[0]
	c.Image, c.Resources.Limits = "mirror.example.com/postgres:17", corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	pending := func() []string { return pendingFields(&statefulSetOf(db).Spec.Template, live) }
	controllertest.Equal(t, "pending fields", nil, pending())
	withImage("postgres:17.7")(db)
	controllertest.Equal(t, "pending fields after a change", []string{fieldImage}, pending())
}

// TestForgedRecordIsNotApplied has records that a user changed so that the operator would run something else.
func TestForgedRecordIsNotApplied(t *testing.T) {
	knowPreviousScript(t)
	for name, forge := range map[string]func(*corev1.Container){
		"another script": func(c *corev1.Container) { c.Command[scriptIndex] = "theirs" },
		"another shell":  func(c *corev1.Container) { c.Command[0] = "theirs" },
		"another probe":  func(c *corev1.Container) { c.LivenessProbe.Exec.Command = []string{"theirs"} },
		"another hook":   func(c *corev1.Container) { c.Lifecycle.PreStop.Exec.Command = []string{"theirs"} },
	} {
		t.Run(name, func(t *testing.T) {
			db := example()
			live := byPrevious(t, db)
			forge(&live.Spec.Template.Spec.Containers[0])
			want := statefulSetOf(db)
			wanted := want.Spec.Template.DeepCopy()
			keepTemplate(db, want, recorded(t, live))
			controllertest.Equal(t, "template", wanted, &want.Spec.Template)
		})
	}
}

func TestPodTemplateIsCorrectedEvenIfRecordIsMissing(t *testing.T) {
	db := example()
	want := statefulSetOf(db)
	live := want.DeepCopy()
	live.Spec.Template.Spec.Containers[0].Command = []string{"theirs"}
	wanted := want.Spec.Template.DeepCopy()
	keepTemplate(db, want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}
