package app

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
)

// withPodTemplate returns a change after which an App has a podTemplate with this YAML, which is valid.
func withPodTemplate(text string) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) {
		app.Spec.PodTemplate = &cnatv1.PodTemplate{}
		_ = yaml.Unmarshal([]byte(text), app.Spec.PodTemplate)
	}
}

func withoutPodTemplate(app *v1alpha1.App) { app.Spec.PodTemplate = nil }

func TestEachChangeOfPodTemplateChangesPods(t *testing.T) {
	f := readyFixture(t)
	generated, digests := f.deployment().Spec.Template, map[string]bool{}
	for _, c := range []struct {
		change func(*v1alpha1.App)
		want   func(*corev1.PodTemplateSpec)
	}{
		{withPodTemplate("spec: {nodeSelector: {disk: ssd}}"), func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}},
		{withPodTemplate("spec: {terminationGracePeriodSeconds: 60}"), func(p *corev1.PodTemplateSpec) {
			*p.Spec.TerminationGracePeriodSeconds = 60
		}},
		{withPodTemplate("metadata: {labels: {team: shop}}"), func(p *corev1.PodTemplateSpec) { p.Labels["team"] = "shop" }},
		{withoutPodTemplate, func(*corev1.PodTemplateSpec) {}},
	} {
		f.Change(c.change)
		controllertest.Equal(t, "writes", []string{patchDeployment, updateStatus}, f.Reconcile().Writes)
		want, got := generated.DeepCopy(), f.deployment().Spec.Template
		c.want(want)
		digests[got.Annotations[TemplateDigestAnnotation]] = true
		for _, annotation := range []string{TemplateDigestAnnotation, podtemplate.OverridesAnnotation} {
			delete(got.Annotations, annotation)
			delete(want.Annotations, annotation)
		}
		controllertest.Equal(t, "template", *want, got)
		f.rollOut()
		f.Reconcile()
		controllertest.Equal(t, "writes at rest", nil, f.Reconcile().Writes)
	}
	controllertest.Equal(t, "number of digests", 4, len(digests))
}

func TestInvalidPodTemplateChangesNoPod(t *testing.T) {
	f := readyFixture(t)
	before := f.deployment()
	f.Change(func(app *v1alpha1.App) {
		withPodTemplate("spec: {containers: [{name: app, imagee: a}]}")(app)
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"}
	})
	controllertest.Equal(t, "writes", []string{"create ingresses default/web", updateStatus}, f.Reconcile().Writes)
	controllertest.Equal(t, "Deployment", before, f.deployment())
	controllertest.Equal(t, "condition", `False InvalidPodTemplate: spec.podTemplate is invalid: unknown field `+
		`"spec.podTemplate.spec.containers[0].imagee". Until you correct spec.podTemplate, the operator does not create or `+
		`change the Deployment.`, f.ready())
	f.Change(withoutPodTemplate)
	f.Reconcile()
	controllertest.Equal(t, "phase", v1alpha1.AppReady, f.Object().Status.Phase)
}

func TestBeforeRolloutRunsWithPodTemplateButWithoutItsContainers(t *testing.T) {
	app := example(withMigration, withPodTemplate(
		"{metadata: {labels: {team: shop}, annotations: {inject: 'false'}}, "+
			"spec: {nodeSelector: {disk: ssd}, containers: [{name: proxy, image: 'proxy:1'}]}}"))
	pod := runPodOf(app, runID{"t", "c"})
	controllertest.Equal(t, "node selector", map[string]string{"disk": "ssd"}, pod.Spec.NodeSelector)
	controllertest.Equal(t, "containers", []string{runContainer}, []string{pod.Spec.Containers[0].Name})
	controllertest.Equal(t, "number of containers", 1, len(pod.Spec.Containers))
	controllertest.Equal(t, "label and annotation", []string{"shop", "false"},
		[]string{pod.Labels["team"], pod.Annotations["inject"]})
	controllertest.Equal(t, "label that keeps traffic away", "before-rollout", pod.Labels["app.kubernetes.io/name"])
}

// TestKubeletDoesNotRestartBeforeRollout sets the fields by which the kubelet restarts containers of the App.
func TestKubeletDoesNotRestartBeforeRollout(t *testing.T) {
	const always = "restartPolicyRules: [{action: RestartAllContainers}]"
	pod := runPodOf(example(withMigration, withPodTemplate("{spec: {initContainers: [{name: a, image: a, "+always+"}], "+
		"containers: [{name: app, restartPolicy: OnFailure, "+always+"}]}}")), runID{"t", "c"})
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.RestartPolicy != nil || c.RestartPolicyRules != nil {
			t.Errorf("container %s has restartPolicy %v and rules %v", c.Name, c.RestartPolicy, c.RestartPolicyRules)
		}
	}
	controllertest.Equal(t, "number of init containers", 1, len(pod.Spec.InitContainers))
}
