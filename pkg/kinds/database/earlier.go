package database

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Operators before v0.2.0 had the settings in the arguments and the environment of the container, so that every change of
// them replaced the Pod. The Pods of these operators keep their template until something replaces them: this file builds
// that template, with which a change of the spec or of the password is recognized.

// earlierScripts are the SHA-256 digests of the scripts of these operators, which are not needed any more.
var earlierScripts = []string{
	"b035ce7d643508c2037a6cef163ac6198dc4097cc7e9d5e3e2df28b248de9c86",
	"6f06046fe0e16092ef7edd9fd47be20e3f908e1344a4d3c9e11be01e777099a9",
}

const (
	earlierDigestAnnotation = "windlass.dev/password-digest"
	earlierVolume           = "credentials"
	earlierPath             = "/etc/windlass/credentials"
	earlierLivenessFailures = 6
	earlierIsCurrent        = `[ -e "$TAKEN_FILE" ] || exit 0
IFS= read -r now <"$PASSWORD_FILE" && exit 0
case $now in *[[:cntrl:]]*) exit 0 ;; esac
IFS= read -r taken <"$TAKEN_FILE"
[ "$now" = "$taken" ]`
)

// isEarlier reports whether a template runs a script of an earlier operator.
func isEarlier(template *corev1.PodTemplateSpec) bool {
	c := pods.Container(template, containerName)
	if c == nil || len(c.Command) <= scriptIndex {
		return false
	}
	sum := sha256.Sum256([]byte(c.Command[scriptIndex]))
	return slices.Contains(earlierScripts, hex.EncodeToString(sum[:]))
}

// earlierTemplate returns the template that an earlier operator desired, with the script of this operator.
func earlierTemplate(db *v1alpha1.Database, image string, connection *corev1.Secret) corev1.PodTemplateSpec {
	template := desiredTemplate(db, image)
	template.Annotations = map[string]string{earlierDigestAnnotation: passwordDigest(connection)}
	volumes := template.Spec.Volumes
	volumes[len(volumes)-1] = corev1.Volume{Name: earlierVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: credentials.Name(db.Name), DefaultMode: ptr.To[int32](0o440), Items: []corev1.KeyToPath{{Key: credentials.KeyPassword, Path: credentials.KeyPassword}},
	}}}
	c := &template.Spec.Containers[0]
	c.VolumeMounts[len(c.VolumeMounts)-1] = corev1.VolumeMount{Name: earlierVolume, MountPath: earlierPath, ReadOnly: true}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Parameters)) {
		args = append(args, "-c", name+"="+literal(string(db.Spec.Parameters[name])))
	}
	c.Args = append(args, c.Args...)
	c.Env = []corev1.EnvVar{
		{Name: "PGDATA", Value: dataPath + "/pgdata"},
		{Name: "PGHOST", Value: runPath},
		{Name: "PGPORT", Value: strconv.Itoa(port)},
		{Name: "PGUSER", Value: "postgres"},
		{Name: "PGDATABASE", Value: literal(db.Spec.DatabaseName)},
		{Name: "OWNER", Value: literal(db.Spec.Owner)},
		{Name: "ATTRIBUTES", Value: ownerAttributes(db)},
		{Name: "PASSWORD_FILE", Value: earlierPath + "/" + credentials.KeyPassword},
		{Name: "TAKEN_FILE", Value: sharedPath + "/password"},
		{Name: "TERMINATION_LOG", Value: corev1.TerminationMessagePathDefault},
	}
	c.LivenessProbe.ProbeHandler, c.LivenessProbe.FailureThreshold = shell(earlierIsCurrent), earlierLivenessFailures
	return template
}

// keepsEarlier reports whether a live StatefulSet keeps the template of an earlier operator, because the Database has not
// changed since. last is the template in the record of the StatefulSet, which users can write. The first of these
// operators had no startup probe.
func keepsEarlier(db *v1alpha1.Database, image string, connection *corev1.Secret, last *corev1.PodTemplateSpec) bool {
	if !isEarlier(last) {
		return false
	}
	want := earlierTemplate(db, image, connection)
	return keepsTemplate(&want, last)
}

// keepsTemplate reports whether last is the template want of an earlier operator.
func keepsTemplate(want, last *corev1.PodTemplateSpec) bool {
	is, same := pods.Container(last, containerName), equality.Semantic.DeepEqual
	c := want.Spec.Containers[0]
	return equality.Semantic.DeepEqual(operatorFields.Without(last), operatorFields.Without(want)) &&
		slices.Equal(slices.Delete(slices.Clone(is.Command), scriptIndex, scriptIndex+1), slices.Delete(slices.Clone(c.Command), scriptIndex, scriptIndex+1)) &&
		(is.StartupProbe == nil || same(is.StartupProbe, c.StartupProbe)) &&
		same(is.ReadinessProbe, c.ReadinessProbe) && same(is.LivenessProbe, c.LivenessProbe) && same(is.Lifecycle, c.Lifecycle)
}

// literal escapes a text so that the kubelet expands no $(VARIABLE) in it.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// waitsEarlier reports whether the template in the record of a StatefulSet is the template of an earlier operator for any
// spec and password of the Database.
func waitsEarlier(db *v1alpha1.Database, image string, connection *corev1.Secret, last *corev1.PodTemplateSpec) bool {
	is := pods.Container(last, containerName)
	if !isEarlier(last) || is == nil {
		return false
	}
	was := last.DeepCopy()
	want := earlierTemplate(db, image, connection)
	was.Annotations = want.Annotations
	c := pods.Container(was, containerName)
	c.Args, c.Env = want.Spec.Containers[0].Args, want.Spec.Containers[0].Env
	setAside(&want, last)
	return keepsTemplate(&want, was)
}

// reloads reports whether the Pod of a StatefulSet applies settings while the server runs. The Pods of earlier operators
// do not.
func reloads(set *appsv1.StatefulSet) bool { return !isEarlier(&set.Spec.Template) }
