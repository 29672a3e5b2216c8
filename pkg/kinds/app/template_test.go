package app

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// byPreviousVersion returns the Deployment of an App that a previous version of the operator created, with fewer
// operator fields.
func byPreviousVersion(t *testing.T, app *v1alpha1.App) *appsv1.Deployment {
	t.Helper()
	d := deploymentWith(app, nil)
	keepPreviousFields(app, &d.Spec.Template)
	return recorded(t, d)
}

// keepPreviousFields removes the operator fields that the version of byPreviousVersion did not set.
func keepPreviousFields(app *v1alpha1.App, template *corev1.PodTemplateSpec) {
	digest := template.Annotations[TemplateDigestAnnotation]
	operatorFields(template)
	template.Labels = podSelectorOf(app)
	template.Annotations[TemplateDigestAnnotation] = digest
}

// recorded returns a Deployment with its record, as the operator stores it.
func recorded(t *testing.T, d *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	record, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	d.Annotations = map[string]string{children.RecordAnnotation: string(record)}
	d.Generation = 1
	return d
}

func TestKeepTemplate(t *testing.T) {
	byThisVersion := func(t *testing.T, app *v1alpha1.App) *appsv1.Deployment {
		return recorded(t, deploymentWith(app, nil))
	}
	for name, c := range map[string]struct {
		live   func(*testing.T, *v1alpha1.App) *appsv1.Deployment
		drift  func(*appsv1.Deployment)
		change func(*v1alpha1.App)
		kept   bool
	}{
		"a template of a previous version is kept": {live: byPreviousVersion, kept: true},
		"a template of a previous version is kept if the number of replicas changes": {
			live: byPreviousVersion, change: func(app *v1alpha1.App) { *app.Spec.Replicas = 7 }, kept: true,
		},
		"a template of a previous version is kept if another client changes the image": {
			live: byPreviousVersion, kept: true,
			drift: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs:1" },
		},
		"a template of a previous version is replaced if the App changes the image": {
			live: byPreviousVersion, change: func(app *v1alpha1.App) { app.Spec.Image = "web:2" },
		},
		"a template of a previous version with another name of the container is kept": {
			live: func(t *testing.T, app *v1alpha1.App) *appsv1.Deployment {
				app.Spec.ContainerName = "shop"
				return byPreviousVersion(t, app)
			}, kept: true,
		},
		"a template is replaced if the App changes the name of the container": {
			live: byPreviousVersion, change: func(app *v1alpha1.App) { app.Spec.ContainerName = "shop" },
		},
		"a template of a previous version with a podTemplate is kept": {
			live: func(t *testing.T, app *v1alpha1.App) *appsv1.Deployment {
				withPodTemplate("spec: {nodeSelector: {disk: ssd}}")(app)
				return byPreviousVersion(t, app)
			}, kept: true,
		},
		"a template of a previous version is replaced if the App adds a podTemplate": {
			live: byPreviousVersion, change: withPodTemplate("spec: {terminationGracePeriodSeconds: 60}"),
		},
		"a template whose record lacks the label of the App is replaced": {
			live: func(t *testing.T, app *v1alpha1.App) *appsv1.Deployment {
				d := byPreviousVersion(t, app)
				delete(d.Spec.Template.Labels, appLabel)
				return recorded(t, d)
			},
		},
		"a template of this version stays": {live: byThisVersion},
		"a template of this version stays if the record is missing": {
			live: byThisVersion, drift: func(d *appsv1.Deployment) { d.Annotations = nil },
		},
		"a template of this version is corrected even if the record is missing": {live: byThisVersion,
			drift: func(d *appsv1.Deployment) {
				d.Annotations, d.Spec.Template.Spec.AutomountServiceAccountToken = nil, nil
			}},
		"a template of this version is corrected even if the record is forged": {live: byThisVersion,
			drift: func(d *appsv1.Deployment) {
				d.Annotations[children.RecordAnnotation] = strings.ReplaceAll(d.Annotations[children.RecordAnnotation],
					d.Spec.Template.Annotations[TemplateDigestAnnotation], strings.Repeat("x", 100))
			}},
		"a template of this version gets the labels of the Platform with each change": {live: byThisVersion,
			change: func(app *v1alpha1.App) {
				app.Spec.Image = "web:2"
				kindtest.MakeComponent(app, "shop", "web")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			app := example()
			live := c.live(t, app)
			if c.drift != nil {
				c.drift(live)
			}
			if c.change != nil {
				c.change(app)
			}
			want := deploymentWith(app, nil)
			wanted := want.DeepCopy()
			keepTemplate(app, want, live)
			if c.kept {
				keepPreviousFields(app, &wanted.Spec.Template)
			}
			if !equality.Semantic.DeepEqual(wanted, want) {
				controllertest.Equal(t, "Deployment", wanted, want)
			}
		})
	}
}

func TestStatusNamesLastAvailableTemplate(t *testing.T) {
	f := readyFixture(t)
	first := f.Object().Status
	controllertest.Equal(t, "last available template", &v1alpha1.AvailableTemplate{
		TemplateDigest: first.TemplateDigest, Image: "web:1",
	}, first.LastAvailable)
	f.Change(func(app *v1alpha1.App) { app.Spec.Image = "web:2" })
	f.Reconcile()
	during := f.Object().Status
	controllertest.Equal(t, "last available template during a rollout", first.LastAvailable, during.LastAvailable)
	if during.TemplateDigest == first.TemplateDigest {
		t.Error("the digest of the template did not change with the image")
	}
	running := container(corev1.ContainerState{}, corev1.ContainerState{}, 0)
	running.ContainerStatuses[0].ImageID = "registry.example.com/web@sha256:0123"
	f.Store(podOf(f.deployment(), "web-1-a", running))
	f.rollOut()
	f.Reconcile()
	controllertest.Equal(t, "last available template after a rollout", &v1alpha1.AvailableTemplate{
		TemplateDigest: during.TemplateDigest, Image: "web:2", ImageID: "registry.example.com/web@sha256:0123",
	}, f.Object().Status.LastAvailable)
}

func TestLabelOfPlatformReplacesNoPod(t *testing.T) {
	f := readyFixture(t)
	before := f.deployment().Spec.Template
	f.Change(func(app *v1alpha1.App) { kindtest.MakeComponent(app, "shop", "web") })
	f.Reconcile()
	controllertest.Equal(t, "label of the Deployment", "web", f.deployment().Labels["app.kubernetes.io/component"])
	controllertest.Equal(t, "template", before, f.deployment().Spec.Template)
	f.Change(func(app *v1alpha1.App) { app.Spec.Image = "web:2" })
	f.Reconcile()
	controllertest.Equal(t, "label of the next template", "web",
		f.deployment().Spec.Template.Labels["app.kubernetes.io/component"])
}

func TestTemplateChangedByOthersIsChangedBackWithWarning(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment){
		"kubectl rollout undo": func(d *appsv1.Deployment) {
			previous := deploymentWith(example(func(app *v1alpha1.App) { app.Spec.Image = "web:0" }), nil)
			d.Spec.Template, d.Annotations = previous.Spec.Template, recorded(t, previous.DeepCopy()).Annotations
		},
		"kubectl set image": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs:1" },
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			before := f.deployment().Spec.Template
			f.changeDeployment(change)
			r := f.Reconcile()
			controllertest.Equal(t, "template", before, f.deployment().Spec.Template)
			want := "Warning TemplateReverted default/web: Another client changed the Pod template of Deployment " +
				"web, for example with `kubectl rollout undo`. The operator reverted this change. To roll back, " +
				"apply the previous manifest of App web."
			if len(r.Events) == 0 || r.Events[0] != want {
				t.Errorf("the events are %q, wanted %q first", r.Events, want)
			}
			f.rollOut()
			for _, event := range f.Reconcile().Events {
				if strings.HasPrefix(event, "Warning") {
					t.Errorf("the next reconcile has the event %q", event)
				}
			}
		})
	}
}

func TestPodsGetTokenOnlyOfNamedServiceAccount(t *testing.T) {
	app := example()
	token := deploymentWith(app, nil).Spec.Template.Spec.AutomountServiceAccountToken
	if token == nil || *token {
		t.Error("a Pod without serviceAccountName mounts a token")
	}
	app.Spec.ServiceAccountName = "reader"
	if token := deploymentWith(app, nil).Spec.Template.Spec.AutomountServiceAccountToken; token != nil {
		t.Errorf("with serviceAccountName, automountServiceAccountToken is %v, want unset", *token)
	}
}

func TestPodsHaveNoVariablesForServices(t *testing.T) {
	app := example(withMigration)
	for what, pod := range map[string]corev1.PodSpec{
		"Pods": deploymentWith(app, nil).Spec.Template.Spec, "Pod of beforeRollout": runPodOf(app, runID{}).Spec,
	} {
		controllertest.Equal(t, "enableServiceLinks of the "+what, ptr.To(false), pod.EnableServiceLinks)
	}
}

func TestLastTemplateIgnoresDigest(t *testing.T) {
	d := recorded(t, deploymentWith(example(), nil))
	d.Annotations["windlass.dev/last-applied"] = `{"spec":{"template":"sha256:00"}}`
	if template, known := pods.LastTemplate(d); known {
		t.Errorf("a record with a digest has the template %v", template)
	}
}
