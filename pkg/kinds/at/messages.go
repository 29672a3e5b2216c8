package at

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages of At: see docs/messages.md.
var Messages = controller.NewCatalog("At")

// reasonDeadline is the reason of several messages. A failed At has the reasons of a failed Job.
const reasonDeadline = "DeadlineExceeded"

var (
	messageScheduled = Messages.Declare("Scheduled", "The command runs at {time}.", "Wait.")
	messageSuspended = Messages.Declare("Suspended", "The command does not run while spec.suspend is true. To let the "+
		"command run, set spec.suspend to false.",
		"Set spec.suspend to false.")
	messageSchedule = Messages.Declare("InvalidSchedule",
		"spec.schedule {schedule} is not a time in RFC 3339: {error}. Change the schedule to a time such as "+
			"2026-02-10T20:30:00Z.", "Correct spec.schedule.")
	messagePodTemplate = Messages.Declare("InvalidPodTemplate", "{problem}. Until you correct spec.podTemplate, the "+
		"operator does not start the command.",
		"Correct spec.podTemplate. `kubectl windlass plan` checks it before you apply it.")
	messageMissed = Messages.Declare(reasonDeadline, "The command was not started within {seconds} s of its schedule.",
		"Create another At with a later schedule, or with a longer startingDeadlineSeconds.")

	messageRunning  = Messages.Declare("Running", "Pod {pod} runs the command.", "Wait.")
	messageRetrying = Messages.Declare("Retrying", "{failed} of {attempts} attempts failed. The next "+
		"attempt follows.", "Read the log of the Pod.")
	messagePodDeleted = Messages.Declare("PodDeleted", "{ending} {failed} of {attempts} attempts failed. The next "+
		"attempt follows.", "Check the effects of the command, which may have run in part.")
	messageNotStarting = Messages.Declare("PodNotStarting",
		"{problem} See `kubectl describe pod -n {namespace} {pod}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")
	messageProblem = Messages.Declare("", "Pod {pod} does not start: {problem}.",
		"Nothing to do: this text is part of another message.")
	adviceToRestrict = Messages.Declare("", "Delete the At, and create it again with spec.restricted set to true",
		"Nothing to do: this text is part of the message of PodRejected.")

	messageSucceeded = Messages.Declare("CommandSucceeded", "{ending}", "Nothing to do.")
	messageFailed    = Messages.Declare("BackoffLimitExceeded", "{ending}",
		"Read the log of the Pod. Create another At with a corrected command; as a task of a Platform, correct its spec.")
	messageDeadline = Messages.Declare(reasonDeadline, "The command did not end within {seconds} s.",
		"Create another At with a longer activeDeadlineSeconds, or make the command faster.")
)
