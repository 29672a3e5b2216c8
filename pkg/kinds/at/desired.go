package at

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/cnat"
	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
	"windlass.dev/windlass/pkg/kinds/internal/podtemplate"
)

const (
	// containerName is the name of the container that runs the command.
	containerName = "command"
	// attemptAnnotation on a Pod has the number of Pods of the At that failed before this Pod was created, so
	// that each failure is counted once.
	attemptAnnotation = cnat.GroupName + "/attempt"
	// nobody is the user ID of the command if spec.restricted is true. Most small images name no user, and the kubelet
	// does not run such an image as root if runAsNonRoot is set.
	nobody int64 = 65534
)

// podName returns the name of the Pod of an At, as in github.com/programming-kubernetes/cnat. The name is
// fixed, so that the API server rejects a second Pod.
func podName(at *v1.At) string { return at.Name + podSuffix }

const podSuffix = "-pod"

// templateRules say what spec.podTemplate must not change. The kubelet must never restart the command.
var templateRules = podtemplate.Rules{
	Container: containerName,
	InSpec: []podtemplate.Field[corev1.Container]{
		podtemplate.Image, podtemplate.Command, podtemplate.Args, podtemplate.Resources,
	},
	Fixed:     []podtemplate.Field[corev1.Container]{podtemplate.RestartOfContainer},
	PodInSpec: []podtemplate.Field[corev1.PodSpec]{podtemplate.ServiceAccountName, podtemplate.ActiveDeadlineSeconds},
	PodFixed:  []podtemplate.Field[corev1.PodSpec]{podtemplate.RestartPolicy},
	Once:      true,
}

// desiredPod returns the Pod that runs the command of at. An error says what is wrong with spec.podTemplate.
func desiredPod(at *v1.At, defaultImage string) (*corev1.Pod, error) {
	template, err := podtemplate.Merge(generatedTemplate(at, defaultImage), at.Spec.PodTemplate, templateRules)
	if err != nil {
		return nil, messagePodTemplate.Error(err)
	}
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = at.Namespace, podName(at)
	pod.Finalizers = []string{pods.TrackingFinalizer}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(at, v1.SchemeGroupVersion.WithKind("At"))}
	return pod, nil
}

// generatedTemplate returns the Pod without its name and owner, and without spec.podTemplate.
func generatedTemplate(at *v1.At, defaultImage string) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      podLabels(at),
			Annotations: map[string]string{attemptAnnotation: strconv.Itoa(int(at.Status.Failed))},
		},
		Spec: corev1.PodSpec{
			// The kubelet does not restart the command. Each retry is a new Pod, and backoffLimit limits the
			// retries.
			RestartPolicy:      corev1.RestartPolicyNever,
			EnableServiceLinks: ptr.To(false),
			ServiceAccountName: at.Spec.ServiceAccountName,
			ImagePullSecrets:   at.Spec.ImagePullSecrets,
			Containers: []corev1.Container{{
				Name:      containerName,
				Image:     cmp.Or(at.Spec.Image, defaultImage),
				Command:   at.Spec.Command,
				Args:      at.Spec.Args,
				Env:       at.Spec.Env,
				EnvFrom:   at.Spec.EnvFrom,
				Resources: at.Spec.Resources,
				// The status quotes the end of the log of a failed command.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
		},
	}
	if at.Spec.ServiceAccountName == "" {
		template.Spec.AutomountServiceAccountToken = ptr.To(false)
	}
	if restricted(at) {
		template.Spec.SecurityContext = pods.Restricted()
		template.Spec.SecurityContext.RunAsUser = ptr.To(nobody)
		template.Spec.Containers[0].SecurityContext = pods.RestrictedContainer()
	}
	return template
}

func podLabels(at *v1.At) map[string]string { return pods.LabelsOf(at, "at", labelValue(at.Name)) }

// labelValue returns a name as the value of a label. It truncates a name that is too long, and appends a
// hash, so that different names have different values.
func labelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	const hashed = 8
	sum := sha256.Sum256([]byte(name))
	return name[:validation.LabelValueMaxLength-hashed-1] + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// attemptOf returns the number in attemptAnnotation, or 0 if it is missing or invalid.
func attemptOf(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[attemptAnnotation], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}
