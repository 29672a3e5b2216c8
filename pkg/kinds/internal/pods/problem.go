package pods

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// Reasons of problems, in addition to the reasons that the kubelet reports.
const (
	ReasonCrashing      = "CrashLoopBackOff"
	ReasonImagePull     = "ImagePullBackOff"
	ReasonUnschedulable = corev1.PodReasonUnschedulable
)

// Problem says why a container does not run.
type Problem struct {
	Reason string
	// Message is a clause such as "the image web:1 was not found in its registry". It is the same while the
	// cause is the same, although the kubelet alternates between several messages.
	Message string
	// Container is the name of the container with the problem if others have added it to the Pod, or "".
	Container string
	// Words is a sentence with words that can change while the cause is the same, or "": the last line of the log
	// of a crashed container, or the message of the scheduler.
	Words string
}

// LogWords begins the sentence with the last line of a log.
const LogWords = "The last line of its log: "

// WithWords returns a message followed by the words of the problem. If the condition Ready in before has other words
// after the same message, WithWords keeps the words of the condition, so that words alone cause no status write.
func (p *Problem) WithWords(message string, before []metav1.Condition) string {
	if ready := conditions.Find(before, conditions.Ready); ready != nil {
		if _, words, found := strings.Cut(ready.Message, message); found {
			return message + words
		}
	}
	if p.Words == "" {
		return message
	}
	return message + " " + p.Words
}

// Blocked returns the problem of a container that cannot start, or nil.
func Blocked(status corev1.ContainerStatus) *Problem {
	reason := BlockedStart(status)
	if reason == "" {
		return nil
	}
	image, said := OneLine(status.Image), status.State.Waiting.Message
	switch reason {
	case ReasonImagePull:
		return &Problem{Reason: reason, Message: pullFailure(strings.ReplaceAll(said, status.Image, "")).With(image)}
	case "InvalidImageName":
		return &Problem{Reason: reason, Message: messageImageName.With(strconv.Quote(image))}
	case "CreateContainerConfigError":
		// The kubelet appends the name and UID of the Pod to some of these messages.
		said, _, _ = strings.Cut(said, ` (pod: "`)
		if line := OneLine(said); line != "" {
			return &Problem{Reason: reason, Message: messageConfig.With(line)}
		}
	}
	return &Problem{Reason: reason, Message: messageNotCreated.With()} // messages differ in each attempt
}

// pullFailure returns the message about a failure to pull an image. said is the message of the kubelet, which has the
// words of the container runtime and of the registry.
func pullFailure(said string) *controller.Message {
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(strings.ToLower(said), word) {
				return true
			}
		}
		return false
	}
	switch {
	case has("unauthorized", "denied", "forbidden", "authorization", "authentication required", "no basic auth"):
		return messageImageDenied
	case has("not found", "manifest unknown", "name unknown"):
		return messageImageMissing
	case has("x509", "tls:"):
		return messageImageCertificate
	case has("no such host", "refused", "timeout", "unreachable", "server misbehaving"):
		return messageImageUnreachable
	default:
		return messageImagePull
	}
}

// settled is how long a container runs after several crashes before Crashing returns no problem. Until then the
// container is likely to crash again.
const settled = 30 * time.Second

// Crashing returns the problem of a container that crashes again and again, or nil. requeueAfter is positive if time
// alone can change the result.
func Crashing(status corev1.ContainerStatus, now time.Time) (p *Problem, requeueAfter time.Duration) {
	waiting := status.State.Waiting != nil && status.State.Waiting.Reason == ReasonCrashing
	if !waiting && status.RestartCount < 2 {
		return nil, 0
	}
	if running := status.State.Running; running != nil {
		if requeueAfter = running.StartedAt.Add(settled).Sub(now); requeueAfter <= 0 {
			return nil, 0
		}
	}
	return crashed(status), requeueAfter
}

// LastEnd returns how a container ended the last time, or nil.
func LastEnd(status corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if now := status.State.Terminated; now != nil {
		return now
	}
	return status.LastTerminationState.Terminated
}

// crashed returns the problem of a container that has ended at least once, or nil.
func crashed(status corev1.ContainerStatus) *Problem {
	ended := LastEnd(status)
	if ended == nil {
		return nil
	}
	if ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun" {
		return &Problem{Reason: ReasonCrashing, Message: messageNotStarted.With(lastLine(ended))}
	}
	return &Problem{Reason: ReasonCrashing, Message: endOf(ended), Words: LogOf(ended)}
}

// endOf says in a clause how a container ended.
func endOf(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "OOMKilled" {
		return messageKilled.With()
	}
	return messageCrashed.With(ended.ExitCode)
}

// LogOf returns a sentence with the last line of the log of an ended container, or "".
func LogOf(ended *corev1.ContainerStateTerminated) string {
	if line := lastLine(ended); line != "" {
		return messageLog.With(line)
	}
	return ""
}

// lastLine returns the last line of the termination message of a container, or "". The message has the end of the log
// if the terminationMessagePolicy is FallbackToLogsOnError.
func lastLine(ended *corev1.ContainerStateTerminated) string {
	lines := strings.Split(strings.TrimRightFunc(ended.Message, unicode.IsSpace), "\n")
	return OneLine(lines[len(lines)-1])
}

// maxLine limits a text of others in a message, in bytes.
const maxLine = 256

// OneLine returns a text of others, such as a log, on one line: without control characters, and truncated to maxLine.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	text = strings.TrimSpace(text)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine-3], "") + "..."
	}
	return text
}

// unschedulableGrace is how long a Pod may be unschedulable before Unschedulable returns a problem. A Pod is
// unschedulable for a moment while its first volume is being provisioned.
const unschedulableGrace = time.Minute

// Unschedulable returns the problem of a Pod for which the scheduler finds no node, or nil. requeueAfter is positive if
// time alone can change the result.
func Unschedulable(pod *corev1.Pod, now time.Time) (p *Problem, requeueAfter time.Duration) {
	c := ConditionOf(pod, corev1.PodScheduled)
	if c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return nil, 0
	}
	if requeueAfter = c.LastTransitionTime.Add(unschedulableGrace).Sub(now); requeueAfter > 0 {
		return nil, requeueAfter
	}
	return &Problem{
		Reason: ReasonUnschedulable, Message: messageUnschedulable.With(),
		Words: messageScheduler.With(strings.TrimRight(OneLine(c.Message), ".")),
	}, 0
}

// HasSymptom reports whether the status of a Pod can mean a problem. A Pod that starts as it should has no symptom.
func HasSymptom(pod *corev1.Pod) bool {
	init, others := pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses
	for _, statuses := range [][]corev1.ContainerStatus{init, others} {
		for i := range statuses {
			if status := &statuses[i]; status.LastTerminationState.Terminated != nil || BlockedStart(*status) != "" {
				return true
			}
		}
	}
	if pending := pendingInit(pod); pending != nil && pending.State.Running != nil {
		return true
	}
	return ConditionOf(pod, corev1.PodScheduled).Reason == corev1.PodReasonUnschedulable
}

// ConditionOf returns a condition of a Pod. It is empty if the Pod has no condition of this type.
func ConditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return pod.Status.Conditions[i]
		}
	}
	return corev1.PodCondition{}
}

// Earliest returns the shorter of two delays after which time alone can change a result. A delay of 0 means that time
// alone changes nothing: Earliest then returns the other delay.
func Earliest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
