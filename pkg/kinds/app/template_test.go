package app

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// byAnEarlierVersion returns the Deployment of an App as an earlier operator version created it.
func byAnEarlierVersion(t *testing.T, app *v1alpha1.App) *appsv1.Deployment {
	t.Helper()
	d := desiredDeployment(app, nil)
	d.Spec.Template.Labels = selectorOf(app)
	d.Spec.Template.Spec.AutomountServiceAccountToken = nil
	record, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	d.Annotations = map[string]string{children.RecordAnnotation: string(record)}
	d.Generation = 1
	return d
}

func TestTemplateOfEarlierVersionStaysUntilAppChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.App)
		live   func(*appsv1.Deployment)
		kept   bool
	}{
		"while the App is as it was":       {kept: true},
		"while the App changes in size":    {change: func(app *v1alpha1.App) { *app.Spec.Replicas = 7 }, kept: true},
		"while somebody changes it":        {live: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs:1" }, kept: true},
		"while nobody knows what it was":   {live: func(d *appsv1.Deployment) { d.Annotations = nil }, kept: true},
		"while its record is broken":       {live: func(d *appsv1.Deployment) { d.Annotations[children.RecordAnnotation] = "{}" }, kept: true},
		"until the image is another":       {change: func(app *v1alpha1.App) { app.Spec.Image = "web:2" }},
		"and one that is newer stays that": {live: func(d *appsv1.Deployment) { d.Spec.Template.Labels = narrowSelector(example()) }},
	} {
		t.Run(name, func(t *testing.T) {
			app := example()
			live := byAnEarlierVersion(t, app)
			if c.live != nil {
				c.live(live)
			}
			if c.change != nil {
				c.change(app)
			}
			want := desiredDeployment(app, nil)
			keepTemplate(want, live)
			controllertest.Equal(t, "has no label of later", c.kept, want.Spec.Template.Labels[appLabel] == "")
			controllertest.Equal(t, "has the token", c.kept, want.Spec.Template.Spec.AutomountServiceAccountToken == nil)
			controllertest.Equal(t, "image", app.Spec.Image, want.Spec.Template.Spec.Containers[0].Image)
		})
	}
}

func TestPodsGetTokenOnlyOfNamedServiceAccount(t *testing.T) {
	app := example()
	token := desiredDeployment(app, nil).Spec.Template.Spec.AutomountServiceAccountToken
	if token == nil || *token {
		t.Error("without an account there is a token")
	}
	app.Spec.ServiceAccountName = "reader"
	if token := desiredDeployment(app, nil).Spec.Template.Spec.AutomountServiceAccountToken; token != nil {
		t.Errorf("with an account it is decided that there is one: %v", *token)
	}
}

func withoutRollouts(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Paused, d.Spec.Replicas = true, ptr.To[int32](0)
	return d
}

func TestLastTemplateIgnoresShortenedRecord(t *testing.T) {
	d := byAnEarlierVersion(t, example())
	d.Annotations["windlass.dev/last-applied"] = `{"spec":{"template":{"spec":{"containers":[{"name":"app"}]}}}}`
	if template, known := lastTemplate(d); known {
		t.Errorf("it tells %v", template)
	}
}

func TestRollbackSelectsPodsWithoutLabel(t *testing.T) {
	app := example()
	p := &scope{app: app, before: byAnEarlierVersion(t, app), deployment: desiredDeployment(app, nil)}
	controllertest.Equal(t, "selector", selectorOf(app), podSelector(app, p.selected(), narrowSelector(app)))
}

func TestPodSelectorUsesLabelOnlyOnceAllPodsHaveIt(t *testing.T) {
	app := example()
	broad, narrow := selectorOf(app), narrowSelector(app)
	later := func(generation int64, status appsv1.DeploymentStatus) *appsv1.Deployment {
		d := desiredDeployment(app, nil)
		d.Generation, d.Status = generation, status
		return d
	}
	rolledOutTo := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 9, UpdatedReplicas: 9, AvailableReplicas: 9}
	halfWay := rolledOutTo
	halfWay.UpdatedReplicas = 1
	for name, c := range map[string]struct {
		d         *appsv1.Deployment
		now, want map[string]string
	}{
		"none is made":                                   {want: broad},
		"the template is of an earlier version":          {d: byAnEarlierVersion(t, app), now: broad, want: broad},
		"the template has it, and had it from the first": {d: later(1, appsv1.DeploymentStatus{}), want: narrow},
		"the template has changed":                       {d: later(2, appsv1.DeploymentStatus{ObservedGeneration: 1}), now: broad, want: broad},
		"some Pods are of the template":                  {d: later(2, halfWay), now: broad, want: broad},
		"all Pods are of the template":                   {d: later(2, rolledOutTo), now: broad, want: narrow},
		"the next rollout is under way":                  {d: later(3, rolledOutTo), now: narrow, want: narrow},
		"it was orphaned and made again beside its Pods": {d: later(1, appsv1.DeploymentStatus{}), now: broad, want: broad},
		"somebody has paused it, so that it has no Pods of the template": {
			d: withoutRollouts(later(2, appsv1.DeploymentStatus{ObservedGeneration: 2})), now: broad, want: broad,
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "selector", c.want, podSelector(app, c.d, c.now))
		})
	}
}
