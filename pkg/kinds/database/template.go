package database

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// labelsOfPod returns the labels of the Pod template.
func labelsOfPod(db *v1alpha1.Database) map[string]string {
	labels := selectorOf(db)
	pods.CopyPlatformLabels(labels, db.Labels)
	return labels
}

// operatorFields copies the labels, the start script and the probes of the Pod.
var operatorFields pods.OperatorFields = func(to, from *corev1.PodTemplateSpec) {
	from = from.DeepCopy()
	to.Labels = from.Labels
	if c, other := pods.Container(to, containerName), pods.Container(from, containerName); c != nil && other != nil {
		c.Command, c.Lifecycle = other.Command, other.Lifecycle
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = other.StartupProbe, other.ReadinessProbe, other.LivenessProbe
	}
}

// earlierScripts are the SHA-256 digests of the start scripts of earlier operator versions, whose Pods keep them.
var earlierScripts = []string{"b035ce7d643508c2037a6cef163ac6198dc4097cc7e9d5e3e2df28b248de9c86"}

// isOurs reports whether an operator of this or an earlier version can have set the operator fields of the template in the
// record of a StatefulSet. set is the desired StatefulSet. Earlier versions had the same probes and no startup probe.
func isOurs(last *corev1.PodTemplateSpec, set *appsv1.StatefulSet) bool {
	is, want := pods.Container(last, containerName), pods.Container(&set.Spec.Template, containerName)
	if is == nil || want == nil || len(is.Command) != len(want.Command) {
		return false
	}
	command := slices.Clone(is.Command)
	if sum := sha256.Sum256([]byte(is.Command[scriptIndex])); slices.Contains(earlierScripts, hex.EncodeToString(sum[:])) {
		command[scriptIndex] = startScript
	}
	same := equality.Semantic.DeepEqual
	return slices.Equal(command, want.Command) && labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(labels.Set(last.Labels)) &&
		(is.StartupProbe == nil || same(is.StartupProbe, want.StartupProbe)) &&
		same(is.ReadinessProbe, want.ReadinessProbe) && same(is.LivenessProbe, want.LivenessProbe) && same(is.Lifecycle, want.Lifecycle)
}

// keepTemplate keeps the operator fields of a live StatefulSet until the Database changes its template, so that neither an
// upgrade of the operator nor a change of a label restarts PostgreSQL. Earlier versions had no startup probe.
func keepTemplate(desired, live *appsv1.StatefulSet) {
	operatorFields.Keep(live, &desired.Spec.Template, &live.Spec.Template, func(last *corev1.PodTemplateSpec) bool {
		return isOurs(last, desired)
	}, func(template *corev1.PodTemplateSpec) bool {
		c := pods.Container(template, containerName)
		return c != nil && c.StartupProbe == nil
	})
}
