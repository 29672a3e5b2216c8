package database

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// byEarlierVersion returns the StatefulSet of a Database as an operator with another script and other probes created it.
func byEarlierVersion(t *testing.T, db *v1alpha1.Database) *appsv1.StatefulSet {
	t.Helper()
	s := desiredStatefulSet(db, "postgres", "digest")
	c := &s.Spec.Template.Spec.Containers[0]
	c.Command, c.StartupProbe, c.ReadinessProbe.PeriodSeconds = []string{"sh", "-c", "earlier"}, nil, 5
	s.Spec.Template.Labels = selectorOf(db)
	record, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Annotations = map[string]string{children.RecordAnnotation: string(record)}
	return s
}

func TestUpgradeOfOperatorKeepsPodTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Database)
		live   func(*appsv1.StatefulSet)
		digest string
		kept   bool
	}{
		"the Database does not change":     {kept: true},
		"the Database gets a label":        {change: func(db *v1alpha1.Database) { db.Labels = map[string]string{"app.kubernetes.io/part-of": "shop"} }, kept: true},
		"another client changes the image": {live: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "theirs:1" }, kept: true},
		"the record is missing":            {live: func(s *appsv1.StatefulSet) { s.Annotations = nil }, kept: true},
		"the Database gets another parameter": {change: func(db *v1alpha1.Database) {
			db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
		}},
		"the password changes": {digest: "other"},
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

func TestPodTemplateIsCorrectedEvenIfRecordIsMissing(t *testing.T) {
	db := example()
	want := desiredStatefulSet(db, "postgres", "digest")
	live := want.DeepCopy()
	live.Spec.Template.Spec.Containers[0].Command = []string{"theirs"}
	wanted := want.Spec.Template.DeepCopy()
	keepTemplate(want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}
