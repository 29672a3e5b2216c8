package podtemplate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
)

var rules = podtemplate.Rules{
	Container: "app",
	InSpec:    []podtemplate.Field[corev1.Container]{podtemplate.Image, podtemplate.Command, podtemplate.Args},
	PodInSpec: []podtemplate.Field[corev1.PodSpec]{podtemplate.ServiceAccountName},
}

func generated() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"windlass.dev/app": "web"}, Annotations: map[string]string{"windlass.dev/digest": "1"},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](35),
			SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
			Containers: []corev1.Container{{
				Name: "app", Image: "web:1", Args: []string{"serve"},
				Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env:          []corev1.EnvVar{{Name: "A", Value: "1"}},
				EnvFrom:      []corev1.EnvFromSource{{Prefix: "a"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")},
				}},
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web-1"}},
			}}},
		},
	}
}

// over returns a podTemplate from YAML.
func over(t testing.TB, text string) *cnatv1.PodTemplate {
	t.Helper()
	template := &cnatv1.PodTemplate{}
	if err := yaml.Unmarshal([]byte(text), template); err != nil {
		t.Fatal(err)
	}
	return template
}

func TestMergeKeepsFieldsThatPodTemplateDoesNotSet(t *testing.T) {
	for name, c := range map[string]struct {
		over string
		want func(*corev1.PodTemplateSpec)
	}{
		"nothing": {"{}", func(*corev1.PodTemplateSpec) {}},
		"a label and an annotation": {
			"metadata: {labels: {team: shop}, annotations: {scrape: 'true'}}", func(p *corev1.PodTemplateSpec) {
				p.Labels["team"], p.Annotations["scrape"] = "shop", "true"
			},
		},
		"a field of the Pod": {"spec: {nodeSelector: {disk: ssd}, terminationGracePeriodSeconds: 60}",
			func(p *corev1.PodTemplateSpec) {
				p.Spec.NodeSelector, p.Spec.TerminationGracePeriodSeconds = map[string]string{"disk": "ssd"}, ptr.To[int64](60)
			}},
		"a field beside a generated field": {"spec: {securityContext: {runAsUser: 1000}}", func(p *corev1.PodTemplateSpec) {
			p.Spec.SecurityContext.RunAsUser = ptr.To[int64](1000)
		}},
		"a variable of the container": {
			"spec: {containers: [{name: app, env: [{name: B, value: '2'}]}]}", func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
			},
		},
		"an init container": {
			"spec: {initContainers: [{name: wait, image: 'wait:1'}]}", func(p *corev1.PodTemplateSpec) {
				p.Spec.InitContainers = []corev1.Container{{Name: "wait", Image: "wait:1"}}
			},
		},
		"another action of a probe": {
			"spec: {containers: [{name: app, readinessProbe: {$patch: replace, exec: {command: ['true']}}}]}",
			func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"true"}},
				}}
			},
		},
		"envFrom, which has no key": {
			"spec: {containers: [{name: app, envFrom: [{prefix: b, secretRef: {name: b}}]}]}", func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{Prefix: "b", SecretRef: &corev1.SecretEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "b"},
				}}}
			},
		},
		"a container before the container of the App": {
			"spec: {containers: [{name: proxy, image: 'proxy:1'}]}", func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
			},
		},
		"the replacement of an object that is not generated": {
			"spec: {affinity: {$patch: replace, podAffinity: {}}, containers: [{name: app, livenessProbe: " +
				"{$patch: replace, exec: {command: ['true']}}}]}", func(p *corev1.PodTemplateSpec) {
				p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
				p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"true"}},
				}}
			},
		},
		"the removal of a generated variable": {
			"spec: {containers: [{name: app, env: [{name: A, $patch: delete}]}]}",
			func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Env = []corev1.EnvVar{} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := generated()
			c.want(want)
			before := generated()
			got, err := podtemplate.Merge(before, over(t, c.over), rules)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the template differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(generated(), before); diff != "" {
				t.Errorf("Merge has changed the generated template (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeNamesInvalidField(t *testing.T) {
	const app = "spec.podTemplate.spec.containers[name=app]"
	const invalid = "spec.podTemplate is invalid: "
	for name, c := range map[string]struct{ over, want string }{
		"an unknown field": {
			"spec: {nodeSelektor: {a: b}}", invalid + `unknown field "spec.podTemplate.spec.nodeSelektor"`,
		},
		"an unknown field of a container": {
			"spec: {containers: [{name: app, imagee: a}]}",
			invalid + `unknown field "spec.podTemplate.spec.containers[0].imagee"`,
		},
		"two unknown fields": {
			"spec: {a: 1, b: 2}",
			invalid + `[unknown field "spec.podTemplate.spec.a", unknown field "spec.podTemplate.spec.b"]`,
		},
		"a list with too many items": {
			"spec: {containers: [{name: app, env: [" + strings.Repeat("{name: a}, ", 257) + "]}]}",
			"spec.podTemplate.spec.containers[0].env has 257 items; it must have at most 256",
		},
		"too many bytes": {
			"spec: {hostname: " + strings.Repeat("a", 1<<15) + "}",
			"spec.podTemplate has 32792 bytes; it must have at most 32768",
		},
		"a value of a wrong type": {
			"spec: {containers: app}", "spec.podTemplate has a value of a wrong type: json: cannot unmarshal string into Go " +
				"struct field PodSpec.spec.containers of type []v1.Container",
		},
		"a container without a name": {
			"spec: {containers: [{image: a}]}",
			"spec.podTemplate cannot be merged: map: map[image:a] does not contain declared merge key: name",
		},
		"a label of the operator": {
			"metadata: {labels: {windlass.dev/app: a}}",
			"spec.podTemplate.metadata.labels[windlass.dev/app] is reserved for the operator",
		},
		"a directive whose result depends on the order of the fields": {
			"spec: {containers: [{name: app, $deleteFromPrimitiveList/args: [a]}]}", "spec.podTemplate.spec.containers[0] " +
				"must not have $deleteFromPrimitiveList/args; the only supported directive is $patch",
		},
		"an unknown value of a directive": {
			"spec: {affinity: {$patch: merge}}", "spec.podTemplate.spec.affinity.$patch must be replace or delete",
		},
		"too many objects within each other": {
			"spec: {a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}",
			"spec.podTemplate has too many objects within each other",
		},
		"a container with a port of the name to which the Service sends requests": {
			"spec: {containers: [{name: proxy, image: p, ports: [{name: http, containerPort: 9}]}]}",
			"port http of container proxy in spec.podTemplate needs another name, because the Service sends requests to " +
				"this name",
		},
		"a directive in the labels": {
			"metadata: {labels: {$patch: replace, team: shop}}", "spec.podTemplate.metadata.labels must not have $patch",
		},
		"an annotation that the operator may need": {
			"metadata: {annotations: {windlass.dev/a: a}}",
			"spec.podTemplate.metadata.annotations[windlass.dev/a] is reserved for the operator",
		},
		"the image": {
			"spec: {containers: [{name: app, image: a}]}", app + ".image must not be set: set image in the spec instead",
		},
		"the arguments": {
			"spec: {containers: [{name: app, args: [a]}]}", app + ".args must not be set: set args in the spec instead",
		},
		"the ServiceAccount": {
			"spec: {serviceAccountName: a}",
			"spec.podTemplate.spec.serviceAccountName must not be set: set serviceAccountName in the spec instead",
		},
		"the ServiceAccount by its deprecated name": {
			"spec: {serviceAccount: a}",
			"spec.podTemplate.spec.serviceAccountName must not be set: set serviceAccountName in the spec instead",
		},
		"the generated container": {"spec: {containers: [{name: app, $patch: delete}]}", app + " must not be deleted"},
		"all containers":          {"spec: {containers: [{$patch: replace}, {name: a}]}", app + " must not be deleted"},
		"a generated port": {
			"spec: {containers: [{name: app, ports: [{$patch: delete, containerPort: 8080}]}]}",
			app + ".ports[name=http] must not be changed, because the operator needs it",
		},
		"a generated mount": {
			"spec: {containers: [{name: app, volumeMounts: [{mountPath: /etc/app, name: theirs}]}]}",
			app + ".volumeMounts[name=config] must not be changed, because the operator needs it",
		},
		"a generated volume": {
			"spec: {volumes: [{name: config, configMap: {name: theirs}}]}",
			"spec.podTemplate.spec.volumes[name=config] must not be changed, because the operator needs it",
		},
		"two actions of a probe": {
			"spec: {containers: [{name: app, readinessProbe: {exec: {command: ['true']}}}]}",
			app + ".readinessProbe has the actions exec and httpGet; to replace the generated action, add `$patch: replace` " +
				"beside the new action",
		},
		"two actions of a hook": {
			"spec: {containers: [{name: app, lifecycle: {preStop: {exec: {command: ['true']}}}}]}",
			app + ".lifecycle.preStop has the actions exec and sleep; to replace the generated action, add `$patch: replace` " +
				"beside the new action",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := podtemplate.Merge(generated(), over(t, c.over), rules)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestMergeWithoutPodTemplateReturnsGeneratedTemplate(t *testing.T) {
	template := generated()
	if got, err := podtemplate.Merge(template, nil, rules); err != nil || got != template {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestOverridesDoNotDependOnOrder(t *testing.T) {
	a, b := over(t, "{}"), over(t, "{}")
	if err := json.Unmarshal([]byte(`{"spec":{"a":1,"b":2}}`), a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"spec": {"b": 2, "a": 1}}`), b); err != nil {
		t.Fatal(err)
	}
	one, two := generated(), generated()
	podtemplate.SetOverrides(one, a)
	podtemplate.SetOverrides(two, b)
	got, want := one.Annotations[podtemplate.OverridesAnnotation], two.Annotations[podtemplate.OverridesAnnotation]
	if got != want || got == "" {
		t.Errorf("the digests are %q and %q", got, want)
	}
}

// FuzzMerge merges any JSON object. It must return an error or a template with the generated container.
func FuzzMerge(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"containers":[{"name":"app","$patch":"delete"}]}`, `{"containers":null}`, `{"$patch":"replace"}`,
		`{"$setElementOrder/containers":[1]}`, `{"containers":[{"name":{}}]}`,
		`{"volumes":[{"$retainKeys":["a"],"name":"config"}]}`,
		`{"$deleteFromPrimitiveList/a":[{}]}`, `{"tolerations":[null]}`, `{"containers":[null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		if !json.Valid(spec) || !strings.HasPrefix(strings.TrimSpace(string(spec)), "{") {
			return
		}
		template := &cnatv1.PodTemplate{}
		if json.Unmarshal([]byte(`{"spec":`+string(spec)+`}`), template) != nil {
			return
		}
		merged, err := podtemplate.Merge(generated(), template, rules)
		if err == nil && pods.Container(merged, "app") == nil {
			t.Errorf("the template lacks the container app: %v", merged)
		}
	})
}
