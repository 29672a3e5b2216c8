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

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

const earlierScript = "exec postgres"

// byEarlierVersion returns the StatefulSet of a Database as an operator with earlierScript and no startup probe created it.
func byEarlierVersion(t *testing.T, db *v1alpha1.Database) *appsv1.StatefulSet {
	t.Helper()
	s := desiredStatefulSet(db, "postgres", "digest")
	c := &s.Spec.Template.Spec.Containers[0]
	c.Command, c.StartupProbe = []string{"sh", "-c", earlierScript, "postgres"}, nil
	s.Spec.Template.Labels = selectorOf(db)
	record, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Annotations = map[string]string{children.RecordAnnotation: string(record)}
	return s
}

func TestKeepTemplate(t *testing.T) {
	sum := sha256.Sum256([]byte(earlierScript))
	defer func(before []string) { earlierScripts = before }(earlierScripts)
	earlierScripts = append(slices.Clone(earlierScripts), hex.EncodeToString(sum[:]))
	for name, c := range map[string]struct {
		change func(*v1alpha1.Database)
		live   func(*appsv1.StatefulSet)
		digest string
		kept   bool
	}{
		"the template is kept if the Database does not change":     {kept: true},
		"the template is kept if the Database gets a label":        {change: func(db *v1alpha1.Database) { db.Labels = map[string]string{"app.kubernetes.io/part-of": "shop"} }, kept: true},
		"the template is kept if another client changes the image": {live: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "theirs:1" }, kept: true},
		"the template is kept if the record is missing":            {live: func(s *appsv1.StatefulSet) { s.Annotations = nil }, kept: true},
		"the template changes if the Database gets another parameter": {change: func(db *v1alpha1.Database) {
			db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
		}},
		"the template changes with the password": {digest: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			db := example()
			live := byEarlierVersion(t, db)
			earlier := live.Spec.Template.DeepCopy()
			if c.live != nil {
				c.live(live)
			}
			if c.change != nil {
				c.change(db)
			}
			digest := "digest"
			if c.digest != "" {
				digest = c.digest
			}
			want := desiredStatefulSet(db, "postgres", digest)
			wanted := want.Spec.Template.DeepCopy()
			if c.kept {
				wanted = earlier
			}
			keepTemplate(want, live)
			if !equality.Semantic.DeepEqual(wanted, &want.Spec.Template) {
				controllertest.Equal(t, "template", wanted, &want.Spec.Template)
			}
		})
	}
}

// TestForgedRecordIsNotApplied has records that a user changed so that the operator would run something else.
func TestForgedRecordIsNotApplied(t *testing.T) {
	for name, forge := range map[string]func(*corev1.Container){
		"another script": func(c *corev1.Container) { c.Command[scriptIndex] = "theirs" },
		"another shell":  func(c *corev1.Container) { c.Command[0] = "theirs" },
		"another probe":  func(c *corev1.Container) { c.LivenessProbe.Exec.Command = []string{"theirs"} },
		"another hook":   func(c *corev1.Container) { c.Lifecycle.PreStop.Exec.Command = []string{"theirs"} },
	} {
		t.Run(name, func(t *testing.T) {
			db := example()
			live := desiredStatefulSet(db, "postgres", "digest")
			forge(&live.Spec.Template.Spec.Containers[0])
			record, err := json.Marshal(live)
			if err != nil {
				t.Fatal(err)
			}
			live.Annotations = map[string]string{children.RecordAnnotation: string(record)}
			want := desiredStatefulSet(db, "postgres", "digest")
			wanted := want.Spec.Template.DeepCopy()
			keepTemplate(want, live)
			controllertest.Equal(t, "template", wanted, &want.Spec.Template)
		})
	}
}

func TestPodTemplateIsCorrectedEvenIfRecordIsMissing(t *testing.T) {
	db := example()
	want := desiredStatefulSet(db, "postgres", "digest")
	live := want.DeepCopy()
	live.Spec.Template.Spec.Containers[0].Command = []string{"theirs"}
	wanted := want.Spec.Template.DeepCopy()
	keepTemplate(want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}
