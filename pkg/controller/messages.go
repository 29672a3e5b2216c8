package controller

import "windlass.dev/windlass/pkg/cache/lenient"

// Messages declares the messages of every kind: see docs/messages.md.
var Messages = NewCatalog("Every kind")

var (
	messagePaused = Messages.Declare("Paused", "The operator changes nothing for this object, because its annotation "+
		"{annotation} is true. To continue, remove the annotation.",
		"Remove the annotation to continue.")
	messagePausedDeletion = Messages.Declare("Paused", "The deletion waits. {message}",
		"Remove the annotation, so that the operator can finish the deletion.")
	messageFinalizer = Messages.Declare("FinalizerNotRemoved",
		"Removing the finalizer from {kind} {object}, which is the last step of its deletion, failed: {error}. The "+
			"operator retries. If a webhook or policy rejects the request, change the webhook or policy to accept requests of "+
			"the operator.",
		"Change the webhook or the policy that the message names to accept requests of the operator. Otherwise wait.")
	messageTooLarge = Messages.Declare(lenient.ReasonTooLarge,
		"The object is not reconciled, because it has {size} bytes, and at most {limit} are allowed. Make the object "+
			"smaller.", "Make the object smaller.")
	messageBudgetExceeded = Messages.Declare(lenient.ReasonBudgetExceeded,
		"The object is not reconciled, because the large objects of the namespace have more than {limit} bytes in total. "+
			"Make some of these objects smaller. The operator then reconciles the object within a few minutes.",
		"Make large objects of the namespace smaller.")
	messageUnreadable = Messages.Declare(lenient.ReasonUnreadable,
		"The object is not reconciled, because it cannot be read: {error}. Correct the object.",
		"Correct the object.")
	messageRoomAgain = Messages.Declare("", "The budget of the namespace has room for the object again. The operator "+
		"is about to read it.", "Wait.")
)
