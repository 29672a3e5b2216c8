package database

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
)

// restartAnnotation on a Database requests a restart: a new value replaces the Pod. The annotation of this name on the
// Pod template has a digest of the value.
const restartAnnotation = "windlass.dev/restart"

const digestLength = 16

// templateRules say what spec.podTemplate must not change.
var templateRules = podtemplate.Rules{
	Container: containerName, Environment: true,
	InSpec: []podtemplate.Field[corev1.Container]{podtemplate.Image, podtemplate.Resources},
	Fixed: []podtemplate.Field[corev1.Container]{
		podtemplate.Command, podtemplate.Args, podtemplate.StartupProbe, podtemplate.ReadinessProbe,
		podtemplate.LivenessProbe, podtemplate.Lifecycle,
	},
}

// desiredTemplate returns the Pod template: the generated template with spec.podTemplate merged into it. An error says
// what is wrong with spec.podTemplate. With a restore, the Pod restores a backup and runs no server. image is the
// image, without its tag, of a Database that names none.
func desiredTemplate(db *v1alpha1.Database, image string, of *restore) (*corev1.PodTemplateSpec, error) {
	generated := generatedTemplate(db, image, of)
	template, err := podtemplate.Merge(generated, db.Spec.PodTemplate, templateRules)
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(generated, template) {
		podtemplate.SetOverrides(template, db.Spec.PodTemplate)
	}
	// The API server copies serviceAccountName into the deprecated field. If only serviceAccountName were changed, the
	// API server would restore it from the copy.
	account := cmp.Or(template.Spec.ServiceAccountName, template.Spec.DeprecatedServiceAccount)
	template.Spec.ServiceAccountName, template.Spec.DeprecatedServiceAccount = account, account
	return template, nil
}

// generatedTemplate returns the Pod template without spec.podTemplate.
func generatedTemplate(db *v1alpha1.Database, image string, of *restore) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(db)}, Spec: desiredPod(db, image)}
	if of != nil {
		of.changePod(db, template)
	}
	if requested := db.Annotations[restartAnnotation]; requested != "" {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, restartAnnotation, digestOf(requested))
	}
	return template
}

// operatorFields removes the fields of a Pod template that another version of the operator can set to other values: the
// labels, the service links, the policy for pulling the image, the command, the hooks and the probes. It also
// removes labels that spec.podTemplate has added: podtemplate.OverridesAnnotation changes with these labels.
var operatorFields pods.OperatorFields = func(template *corev1.PodTemplateSpec) {
	template.Labels, template.Spec.EnableServiceLinks = nil, nil
	if c := pods.Container(template, containerName); c != nil {
		c.ImagePullPolicy, c.Command, c.Lifecycle = "", nil, nil
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = nil, nil, nil
	}
}

// previousScripts are the SHA-256 digests of the scripts of previous versions of the operator. A StatefulSet keeps such
// a script until something else changes its Pod template. A new version with another serverScript has to add the digest
// of the previous script: otherwise `make test-upgrade` fails.
var previousScripts []string

// isOurs reports whether this or a previous version of the operator can have set the operator fields of last, the
// template in the record of a StatefulSet. Users can write the record. set is the desired StatefulSet.
func isOurs(last *corev1.PodTemplateSpec, set *appsv1.StatefulSet) bool {
	is, want := pods.Container(last, containerName), pods.Container(&set.Spec.Template, containerName)
	if is == nil || want == nil || len(is.Command) != len(want.Command) {
		return false
	}
	command := slices.Clone(is.Command)
	sum := sha256.Sum256([]byte(is.Command[scriptIndex]))
	if slices.Contains(previousScripts, hex.EncodeToString(sum[:])) {
		command[scriptIndex] = serverScript
	}
	same := equality.Semantic.DeepEqual
	return slices.Equal(command, want.Command) &&
		labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(labels.Set(last.Labels)) &&
		same(is.StartupProbe, want.StartupProbe) && same(is.ReadinessProbe, want.ReadinessProbe) &&
		same(is.LivenessProbe, want.LivenessProbe) && same(is.Lifecycle, want.Lifecycle)
}

// keepTemplate changes the template in desired to the template that live keeps:
//   - A change of the operator alone, or of a label of the Database, never replaces the Pod.
//   - With the update policy Manual, only a new value of restartAnnotation replaces the Pod.
//   - Without restartAnnotation, a restart that was requested before stays in the template.
func keepTemplate(db *v1alpha1.Database, desired, live *appsv1.StatefulSet) {
	last, known := pods.LastTemplate(live)
	if !known || restores(&desired.Spec.Template) || restores(&live.Spec.Template) || !isOurs(last, desired) {
		return
	}
	requested := isRequested(&desired.Spec.Template, last)
	keepRestart(&desired.Spec.Template, last)
	if !requested && updatePolicyOf(db) == v1alpha1.UpdateManual {
		// A forged record gives users no further permissions: whoever may write the record may write the template, too.
		desired.Spec.Template = *last
		return
	}
	operatorFields.Keep(&desired.Spec.Template, last)
}

// isRequested reports whether the Database requests a restart that the last template does not have.
func isRequested(desired, last *corev1.PodTemplateSpec) bool {
	requested := desired.Annotations[restartAnnotation]
	return requested != "" && requested != last.Annotations[restartAnnotation]
}

// keepRestart keeps the annotation of a restart that the Database does not request any more.
func keepRestart(desired, last *corev1.PodTemplateSpec) {
	if digest := last.Annotations[restartAnnotation]; digest != "" && desired.Annotations[restartAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, restartAnnotation, digest)
	}
}

// Fields of the spec that take effect only in a new Pod.
const (
	fieldImage       = "spec.image"
	fieldResources   = "spec.resources"
	fieldPodTemplate = "spec.podTemplate"
)

// pendingFields returns the fields of the spec that the operator has not applied yet, because they wait for a restart.
// template is the desired template, and set the StatefulSet after the operator has applied it. pendingFields compares
// the template with the record of set, because an admission plugin may have changed the template of set. Without a
// valid record, keepTemplate keeps no field of the last template, so no field waits.
func pendingFields(template *corev1.PodTemplateSpec, set *appsv1.StatefulSet) (fields []string) {
	last, known := pods.LastTemplate(set)
	want, is := pods.Container(template, containerName), pods.Container(last, containerName)
	if !known || is == nil {
		return nil
	}
	if is.Image != want.Image {
		fields = append(fields, fieldImage)
	}
	if !equality.Semantic.DeepEqual(is.Resources, want.Resources) {
		fields = append(fields, fieldResources)
	}
	if template.Annotations[podtemplate.OverridesAnnotation] != last.Annotations[podtemplate.OverridesAnnotation] {
		fields = append(fields, fieldPodTemplate)
	}
	return fields
}

// isField reports whether an entry of status.pendingRestart is a field of the spec, and not a parameter of PostgreSQL.
func isField(entry string) bool {
	return entry == fieldImage || entry == fieldResources || entry == fieldPodTemplate
}
