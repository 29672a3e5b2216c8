package app

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestAdvicePreservesPortsOfTheService checks that the advised ports keep the servicePort of the App.
func TestAdvicePreservesPortsOfTheService(t *testing.T) {
	app := example(func(app *v1alpha1.App) {
		app.Spec.Port, app.Spec.Ports = 0, []v1alpha1.AppPort{{Name: "http", Port: 9898, ServicePort: 9898}}
	})
	live := templateOf(app, nil)
	live.Spec.Containers[0].Ports = append(live.Spec.Containers[0].Ports, corev1.ContainerPort{
		Name: "metrics", ContainerPort: 9797, Protocol: corev1.ProtocolTCP,
	})
	fields, err := FieldsToKeepPods(&app.Spec, templateOf(app, nil), live)
	controllertest.ErrorContains(t, "", err)
	controllertest.Equal(t, "ports", any([]v1alpha1.AppPort{
		{Name: "http", Port: 9898, ServicePort: 9898, Protocol: corev1.ProtocolTCP},
		{Name: "metrics", Port: 9797, Protocol: corev1.ProtocolTCP},
	}), fields["ports"])
}

// TestFieldsToKeepPodsAreEnough sets the fields in the App, and checks that the App then keeps the Pods.
func TestFieldsToKeepPodsAreEnough(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		fields []string
	}{
		"the same template": {change: func(*corev1.PodSpec) {}},
		"another name of the container": {func(p *corev1.PodSpec) {
			p.Containers[0].Name = "nginx"
		}, []string{"containerName"}},
		"another program": {func(p *corev1.PodSpec) {
			c := &p.Containers[0]
			c.Image, c.Command, c.Args = "web:0", []string{"/web"}, []string{"-v"}
		}, []string{"args", "command", "image"}},
		"another name of the port, which a probe uses": {func(p *corev1.PodSpec) {
			p.Containers[0].Ports[0].Name = "web"
			p.Containers[0].ReadinessProbe.HTTPGet.Port = intstr.FromString("web")
		}, []string{"ports"}},
		"a service account": {func(p *corev1.PodSpec) {
			p.ServiceAccountName, p.DeprecatedServiceAccount = "web", "web" // as the API server sets both
		}, []string{"serviceAccountName"}},
		"no security contexts": {func(p *corev1.PodSpec) {
			p.SecurityContext, p.Containers[0].SecurityContext = nil, nil
		}, []string{"podTemplate"}},
		"another security context": {func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
		}, []string{"podTemplate"}},
		"a sidecar and a volume in a Pod with another name of the container": {func(p *corev1.PodSpec) {
			p.Containers[0].Name = "nginx"
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/conf"}}
			p.Containers = append(p.Containers, corev1.Container{Name: "exporter", Image: "exporter:1"})
			p.Volumes = []corev1.Volume{{Name: "conf"}}
		}, []string{"containerName", "podTemplate"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := example(func(app *v1alpha1.App) { app.Spec.Probe = &v1alpha1.AppProbe{Path: "/"} })
			live := operatorFields.Without(templateOf(app, nil))
			c.change(&live.Spec)
			fields, err := FieldsToKeepPods(&app.Spec, templateOf(app, nil), live)
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "fields", c.fields, slices.Sorted(maps.Keys(fields)))
			text, err := yaml.Marshal(map[string]any{"spec": fields})
			if err != nil {
				t.Fatal(err)
			}
			changed := app.DeepCopy()
			if fields["ports"] != nil {
				changed.Spec.Port = 0
			}
			if err := yaml.Unmarshal(text, changed); err != nil {
				t.Fatal(err)
			}
			template, err := desiredTemplate(changed)
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "keeps the Pods", true, keepsPods(changed, template, live))
		})
	}
}
