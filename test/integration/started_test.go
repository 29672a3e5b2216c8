//go:build integration

package integration

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// startedAt is an At with an empty value, an empty list, and the quantity 0.5. A client with typed objects writes these
// values in another form.
const startedAt = `
apiVersion: cnat.programming-kubernetes.info/v1
kind: At
metadata: {name: NAME}
spec:
  schedule: "2020-01-01T00:00:00Z"
  command: [sh, -c, "COMMAND"]
  args: []
  image: ""
  env: [{name: A, value: ""}, {name: B, value: "1"}]
  resources: {requests: {cpu: "0.1"}, limits: {cpu: "0.5", memory: 1024Mi}}
  imagePullSecrets: []
  podTemplate:
    metadata: {annotations: {}}
    spec: {terminationGracePeriodSeconds: 5, containers: [{name: command, env: [{name: C, value: ""}]}]}
  activeDeadlineSeconds: 86400
`

// changesOfStartedAt maps the JSON name of each field of an At to a change of startedAt.
var changesOfStartedAt = map[string]func(*v1.AtSpec){
	"schedule":                func(s *v1.AtSpec) { s.Schedule = "2021-01-01T00:00:00Z" },
	"command":                 func(s *v1.AtSpec) { s.Command = []string{"sh", "-c", "other"} },
	"args":                    func(s *v1.AtSpec) { s.Args = []string{"more"} },
	"image":                   func(s *v1.AtSpec) { s.Image = "other:1" },
	"env":                     func(s *v1.AtSpec) { s.Env[0].Value = "2" },
	"envFrom":                 func(s *v1.AtSpec) { s.EnvFrom = []corev1.EnvFromSource{{Prefix: "P"}} },
	"resources":               func(s *v1.AtSpec) { s.Resources.Limits["cpu"] = resource.MustParse("0.6") },
	"imagePullSecrets":        func(s *v1.AtSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} },
	"serviceAccountName":      func(s *v1.AtSpec) { s.ServiceAccountName = "other" },
	"restricted":              func(s *v1.AtSpec) { s.Restricted = ptr.To(true) },
	"startingDeadlineSeconds": func(s *v1.AtSpec) { s.StartingDeadlineSeconds = ptr.To[int64](1) },
	"activeDeadlineSeconds":   func(s *v1.AtSpec) { s.ActiveDeadlineSeconds = nil },
	"backoffLimit":            func(s *v1.AtSpec) { s.BackoffLimit = ptr.To[int32](1) },
	"ttlSecondsAfterFinished": func(s *v1.AtSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](86400) },
	"podTemplate":             func(s *v1.AtSpec) { s.PodTemplate.Spec.Raw = []byte(`{"nodeSelector":{"a":"b"}}`) },
	"suspend":                 func(s *v1.AtSpec) { s.Suspend = ptr.To(true) },
}

// TestStartedAtRejectsChangesThatCannotTakeEffect changes every field of a Running At and of a Done At.
func TestStartedAtRejectsChangesThatCannotTakeEffect(t *testing.T) {
	t.Parallel()
	for field := range reflect.TypeFor[v1.AtSpec]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); changesOfStartedAt[name] == nil {
			t.Errorf("the test does not change spec.%s", name)
		}
	}
	namespace := shared.NewNamespace(t)
	ats := shared.Windlass.CnatV1().Ats(namespace)
	dryRun := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	const sentence = " cannot be changed once the command has started; create another At"
	for phase, c := range map[v1.AtPhase]struct {
		command string
		allowed []string
	}{
		v1.AtRunning: {"sleep infinity", []string{"backoffLimit", "ttlSecondsAfterFinished"}},
		v1.AtDone:    {"true", []string{"ttlSecondsAfterFinished"}},
	} {
		name := strings.ToLower(string(phase))
		manifest := strings.NewReplacer("NAME", name, "COMMAND", c.command).Replace(startedAt)
		if _, err := shared.Kubectl(t.Context(), manifest, "create", "-n", namespace, "-f", "-"); err != nil {
			t.Fatal(err)
		}
		shared.InPhase(t, namespace, name, phase)
		update := func(change func(*v1.At)) (err error) {
			for range 5 { // the controller may change the status in between
				var at *v1.At
				if at, err = ats.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
					t.Fatal(err)
				}
				change(at)
				if _, err = ats.Update(t.Context(), at, dryRun); !apierrors.IsConflict(err) {
					return err
				}
			}
			return err
		}
		for field, change := range changesOfStartedAt {
			err := update(func(at *v1.At) { change(&at.Spec) })
			want := "spec." + field + ": "
			switch {
			case strings.Contains(strings.Join(c.allowed, " "), field):
				want = ""
			case field == "backoffLimit":
				want += "Invalid value: backoffLimit cannot be changed once the At is Done"
			}
			if want == "" && err != nil || want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want)) {
				t.Errorf("changing %s of an At that is %s: got %v, want %q", field, phase, err, want)
			}
			if want != "" && field != "backoffLimit" && !strings.Contains(err.Error(), field+sentence) {
				t.Errorf("changing %s of an At that is %s: %v does not say %q", field, phase, err, sentence)
			}
		}
		for what, change := range map[string]func(*v1.At){
			"nothing":       func(*v1.At) {},
			"a label":       func(at *v1.At) { at.Labels = map[string]string{"team": "a"} },
			"an annotation": func(at *v1.At) { at.Annotations = map[string]string{"example.com/a": "a"} },
			"a finalizer":   func(at *v1.At) { at.Finalizers = []string{"example.com/hold"} },
		} {
			if err := update(change); err != nil {
				t.Errorf("changing %s of an At that is %s: %v", what, phase, err)
			}
		}
		for _, spec := range []string{`{"command":"other"}`, `{"schedule":"2021-01-01T00:00:00Z"}`} {
			_, err := shared.Kubectl(t.Context(), "", "patch", "-n", namespace,
				"ats.v1alpha1.cnat.programming-kubernetes.info/"+name, "--type=merge", "-p", `{"spec":`+spec+`}`)
			if err == nil || !strings.Contains(err.Error(), sentence) {
				t.Errorf("changing %s as v1alpha1 of an At that is %s: got %v, want %q", spec, phase, err, sentence)
			}
		}
		if _, err := shared.Kubectl(t.Context(), "", "label", "-n", namespace,
			"ats.v1alpha1.cnat.programming-kubernetes.info/"+name, "team=a"); err != nil {
			t.Errorf("adding a label as v1alpha1 to an At that is %s: %v", phase, err)
		}
	}
}
