package at

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// withPodTemplate sets podTemplate to a value in YAML, which is valid.
func withPodTemplate(text string) func(*v1.At) {
	return func(at *v1.At) {
		at.Spec.PodTemplate = &v1.PodTemplate{}
		_ = yaml.Unmarshal([]byte(text), at.Spec.PodTemplate)
	}
}

func TestPodTemplateIsMergedIntoPod(t *testing.T) {
	f := newFixtureAtNoon(t, withActiveDeadline(60), withPodTemplate(`
metadata: {labels: {team: shop}, annotations: {example.com/a: b}}
spec:
  nodeSelector: {disk: ssd}
  containers:
  - {name: proxy, image: "proxy:1"}
  - {name: command, volumeMounts: [{name: scratch, mountPath: /tmp}]}
  volumes: [{name: scratch, emptyDir: {}}]
`))
	f.settle()
	got := f.onlyPod()
	plain := newFixtureAtNoon(t, withActiveDeadline(60))
	plain.settle()
	want := plain.onlyPod()
	want.Labels["team"], want.Annotations["example.com/a"] = "shop", "b"
	want.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	want.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/tmp"}}
	want.Spec.Containers = append(want.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
	want.Spec.Volumes = []corev1.Volume{{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	want.ResourceVersion = got.ResourceVersion
	controllertest.Equal(t, "Pod", want, got)
}

func TestPodTemplateCannotChangeHowCommandRuns(t *testing.T) {
	const pod, command = "spec.podTemplate.spec.", "spec.podTemplate.spec.containers[name=command]."
	const again = `restartPolicyRules: [{action: RestartAllContainers}]`
	for spec, want := range map[string]string{
		"restartPolicy: Always":                   pod + "restartPolicy must not be changed",
		"activeDeadlineSeconds: 5":                pod + "activeDeadlineSeconds must not be set",
		"serviceAccountName: admin":               pod + "serviceAccountName must not be set",
		"containers: [{name: command, image: a}]": command + "image must not be set: set image in the spec instead",
		"containers: [{name: command, resources: {limits: {cpu: 1}}}]": command + "resources must not be set: set " +
			"resources in the spec instead",
		"containers: [{name: command, restartPolicy: Always}]": command + "restartPolicy must not be changed, because the " +
			"operator needs it",
		"containers: [{name: command, $patch: delete}]": pod + "containers[name=command] must not be deleted",
		"containers: [{name: a, " + again + "}]": "container a in spec.podTemplate must not have a rule with the action " +
			"RestartAllContainers, because the command would run again",
		"initContainers: [{name: b, " + again + "}]": "container b in spec.podTemplate must not have a rule",
	} {
		_, err := desiredPod(example(withPodTemplate("spec: {"+spec+"}")), DefaultImage)
		controllertest.ErrorContains(t, want, err)
	}
	for _, annotation := range []string{attemptAnnotation, "cnat.programming-kubernetes.info/new"} {
		_, err := desiredPod(example(withPodTemplate("metadata: {annotations: {"+annotation+": '7'}}")), DefaultImage)
		controllertest.ErrorContains(t, "["+annotation+"] is reserved for the operator", err)
	}
}

const (
	invalidTemplate        = "spec: {nodeSelektor: {disk: ssd}}"
	invalidTemplateMessage = `spec.podTemplate is invalid: unknown field "spec.podTemplate.spec.nodeSelektor". Until ` +
		"you correct spec.podTemplate, the operator does not start the command."
)

func TestInvalidPodTemplate(t *testing.T) {
	const event = "Warning InvalidPodTemplate default/example: " + invalidTemplateMessage
	runCases(t, map[string]reconcileCase{
		"an At with an invalid podTemplate is Stalled until it is edited, even at its time": {
			at: example(pending, withPodTemplate(invalidTemplate)), now: time.Hour,
			err: invalidTemplateMessage, writes: []string{updateStatus}, events: []string{event},
			status: pendingStatus(), conditions: stalledConditions("InvalidPodTemplate", invalidTemplateMessage),
		},
		"an At whose podTemplate was corrected runs": {
			at: example(withPhase(v1.AtPending), withPodTemplate("spec: {nodeSelector: {disk: ssd}}")), now: time.Hour,
			result: controller.Continue(), writes: []string{updateStatus}, events: []string{runningEvent},
			status:     runningStatus(startedAt(noon.Add(time.Hour))),
			conditions: progressingConditions("Running", runningMessage), next: []string{createPod},
		},
		"a Pod that exists keeps its template": {
			at: example(running, withPodTemplate(invalidTemplate)), now: time.Second, pod: pod(),
		},
	})
}

// TestRetryUsesNewPodTemplate changes podTemplate between two attempts, although the API server rejects most such
// changes. An invalid podTemplate delays the retry until it is corrected, but not beyond the deadline.
func TestRetryUsesNewPodTemplate(t *testing.T) {
	f := newFixtureAtNoon(t, withBackoffLimit(1), withActiveDeadline(60))
	f.settle()
	f.exit(3)
	f.Clock.SetTime(noon.Add(f.settle()))
	f.Change(withPodTemplate(invalidTemplate))
	for f.Reconcile().Err == nil {
		if len(f.Journal.Writes()) > 20 {
			t.Fatal("the invalid podTemplate was not reported")
		}
	}
	r := f.Reconcile()
	controllertest.ErrorContains(t, invalidTemplateMessage, r.Err)
	if until := fmt.Sprintf("after:%d", 50*time.Second); !strings.Contains(fmt.Sprintf("%#v", r.Err), until) {
		t.Errorf("the retry is not due at the deadline: %#v", r.Err)
	}
	controllertest.Equal(t, "reads", nil, r.Reads)
	controllertest.Equal(t, "phase", v1.AtRunning, f.Object().Status.Phase)

	f.Change(withPodTemplate("spec: {nodeSelector: {disk: ssd}}"))
	f.settle()
	controllertest.Equal(t, "nodeSelector", map[string]string{"disk": "ssd"}, f.onlyPod().Spec.NodeSelector)
	controllertest.Equal(t, "attempt", int32(1), attemptOf(f.onlyPod()))
}
