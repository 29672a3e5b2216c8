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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const formerScript, earlierScript = "exec postgres", "initdb; exec postgres"

// knowScripts registers formerScript and earlierScript as scripts of operators before this version.
func knowScripts(t *testing.T) {
	former, earlier := formerScripts, earlierScripts
	t.Cleanup(func() { formerScripts, earlierScripts = former, earlier })
	digest := func(script string) string {
		sum := sha256.Sum256([]byte(script))
		return hex.EncodeToString(sum[:])
	}
	formerScripts = append(slices.Clone(formerScripts), digest(formerScript))
	earlierScripts = append(slices.Clone(earlierScripts), digest(earlierScript))
}

// connection returns a connection Secret.
func connection(password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "secret-uid"}, Data: map[string][]byte{credentials.KeyPassword: []byte(password)}}
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

// byFormer returns the StatefulSet that an operator with formerScript created.
func byFormer(t *testing.T, db *v1alpha1.Database) *appsv1.StatefulSet {
	t.Helper()
	s := desiredStatefulSet(db, "postgres")
	s.Spec.Template.Spec.Containers[0].Command[scriptIndex] = formerScript
	s.Spec.Template.Labels = selectorOf(db)
	return recorded(t, s)
}

// byEarlier returns the StatefulSet that an operator created whose Pods did not reload settings.
func byEarlier(t *testing.T, db *v1alpha1.Database) *appsv1.StatefulSet {
	t.Helper()
	s := desiredStatefulSet(db, "postgres")
	s.Spec.Template = earlierTemplate(db, "postgres", connection("first"))
	c := &s.Spec.Template.Spec.Containers[0]
	c.Command[scriptIndex], c.StartupProbe = earlierScript, nil
	s.Spec.Template.Labels = selectorOf(db)
	return recorded(t, s)
}

func TestTemplateIsKept(t *testing.T) {
	knowScripts(t)
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
	restart := func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} }
	noRecord := func(s *appsv1.StatefulSet) { s.Annotations = nil }
	for name, c := range map[string]struct {
		by       func(*testing.T, *v1alpha1.Database) *appsv1.StatefulSet
		change   func(*v1alpha1.Database)
		live     func(*appsv1.StatefulSet)
		password string
		rotates  bool // whether a rotation has begun
		kept     bool
	}{
		"a former template, if nothing changes":                       {by: byFormer, kept: true},
		"a former template, if the Database gets a label":             {by: byFormer, change: label, kept: true},
		"a former template, if the Database gets a parameter":         {by: byFormer, change: parameter, kept: true},
		"a former template, if the password changes":                  {by: byFormer, password: "second", kept: true},
		"a former template, if another client changes the image":      {by: byFormer, live: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "theirs:1" }, kept: true},
		"not a former template, if the image changes":                 {by: byFormer, change: image},
		"not a former template, if a restart is requested":            {by: byFormer, change: restart},
		"with Manual, a former template, if the image changes":        {by: byFormer, change: both(manual, image), kept: true},
		"with Manual, not a former template, at a request":            {by: byFormer, change: both(manual, image, restart)},
		"an earlier template, if nothing changes":                     {by: byEarlier, kept: true},
		"an earlier template, if the Database gets a label":           {by: byEarlier, change: label, kept: true},
		"an earlier template, if the policy becomes Manual":           {by: byEarlier, change: manual, kept: true},
		"not an earlier template, if the Database gets a parameter":   {by: byEarlier, change: parameter},
		"not an earlier template, if the password changes":            {by: byEarlier, password: "second"},
		"not an earlier template, if a rotation begins":               {by: byEarlier, rotates: true},
		"with Manual, an earlier template, if a rotation begins":      {by: byEarlier, change: manual, rotates: true, kept: true},
		"a former template, if a rotation begins":                     {by: byFormer, rotates: true, kept: true},
		"not an earlier template, if a restart is requested":          {by: byEarlier, change: restart},
		"with Manual, an earlier template, if a parameter changes":    {by: byEarlier, change: both(manual, parameter), kept: true},
		"with Manual, not an earlier template, at a request":          {by: byEarlier, change: both(manual, parameter, restart)},
		"not a former template without its record, which is not ours": {by: byFormer, live: noRecord},
	} {
		t.Run(name, func(t *testing.T) {
			db := example()
			live := c.by(t, db)
			before := live.Spec.Template.DeepCopy()
			if c.live != nil {
				c.live(live)
			}
			if c.change != nil {
				c.change(db)
			}
			password := "first"
			if c.password != "" {
				password = c.password
			}
			want := desiredStatefulSet(db, "postgres")
			wanted := want.Spec.Template.DeepCopy()
			if c.kept {
				wanted = before
			}
			keeper{db, "postgres", connection(password), c.rotates}.keep(want, live)
			if !equality.Semantic.DeepEqual(wanted, &want.Spec.Template) {
				controllertest.Equal(t, "template", wanted, &want.Spec.Template)
			}
		})
	}
}

func TestEarlierTemplateIsKeptWithoutRecord(t *testing.T) {
	knowScripts(t)
	db := example()
	live := byEarlier(t, db)
	wanted := live.Spec.Template.DeepCopy()
	live.Annotations = nil
	want := desiredStatefulSet(db, "postgres")
	keeper{db, "postgres", connection("first"), false}.keep(want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}

func TestRequestedRestartStaysInTemplate(t *testing.T) {
	db := example(func(db *v1alpha1.Database) { db.Annotations = map[string]string{restartAnnotation: "now"} })
	live := recorded(t, desiredStatefulSet(db, "postgres"))
	wanted := live.Spec.Template.DeepCopy()
	db.Annotations = nil
	want := desiredStatefulSet(db, "postgres")
	keeper{db, "postgres", connection("first"), false}.keep(want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}

// TestPendingFieldsIgnoresValuesThatAdmissionChanged has a StatefulSet in which a policy changed what the operator applied.
func TestPendingFieldsIgnoresValuesThatAdmissionChanged(t *testing.T) {
	db := example(func(db *v1alpha1.Database) { db.Spec.UpdatePolicy = v1alpha1.UpdateManual })
	live := recorded(t, desiredStatefulSet(db, "postgres"))
	c := &live.Spec.Template.Spec.Containers[0]
	c.Image, c.Resources.Limits = "mirror.example.com/postgres:17", corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	controllertest.Equal(t, "pending fields", nil, pendingFields(keeper{db: db, image: "postgres"}, live))
	withImage("postgres:17.7")(db)
	controllertest.Equal(t, "pending fields after a change", []string{fieldImage}, pendingFields(keeper{db: db, image: "postgres"}, live))
}

// TestForgedRecordIsNotApplied has records that a user changed so that the operator would run something else.
func TestForgedRecordIsNotApplied(t *testing.T) {
	knowScripts(t)
	for name, forge := range map[string]func(*corev1.Container){
		"another script": func(c *corev1.Container) { c.Command[scriptIndex] = "theirs" },
		"another shell":  func(c *corev1.Container) { c.Command[0] = "theirs" },
		"another probe":  func(c *corev1.Container) { c.LivenessProbe.Exec.Command = []string{"theirs"} },
		"another hook":   func(c *corev1.Container) { c.Lifecycle.PreStop.Exec.Command = []string{"theirs"} },
	} {
		for operator, by := range map[string]func(*testing.T, *v1alpha1.Database) *appsv1.StatefulSet{"former": byFormer, "earlier": byEarlier} {
			t.Run(name+" of a "+operator+" operator", func(t *testing.T) {
				db := example()
				live := by(t, db)
				forge(&live.Spec.Template.Spec.Containers[0])
				want := desiredStatefulSet(db, "postgres")
				wanted := want.Spec.Template.DeepCopy()
				keeper{db, "postgres", connection("first"), false}.keep(want, recorded(t, live))
				controllertest.Equal(t, "template", wanted, &want.Spec.Template)
			})
		}
	}
}

func TestPodTemplateIsCorrectedEvenIfRecordIsMissing(t *testing.T) {
	db := example()
	want := desiredStatefulSet(db, "postgres")
	live := want.DeepCopy()
	live.Spec.Template.Spec.Containers[0].Command = []string{"theirs"}
	wanted := want.Spec.Template.DeepCopy()
	keeper{db, "postgres", connection("first"), false}.keep(want, live)
	controllertest.Equal(t, "template", wanted, &want.Spec.Template)
}
