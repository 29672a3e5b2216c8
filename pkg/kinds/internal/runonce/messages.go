package runonce

import (
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Messages declares the messages about how a command ended, which are a part of a message of a kind: see
// docs/messages.md.
var Messages = controller.NewCatalog("Commands")

const checkEffects = "The command may have run in part: check its effects."

var (
	messageEnded = Messages.Declare("", "The command ended with exit code {code}.",
		"If the command failed, read its log.")
	messageDeleted = Messages.Declare("", "The Pod was deleted{cause}.", checkEffects)
	messageLost    = Messages.Declare("", "The Pod was deleted before its command ended{cause}.", checkEffects)
	messageFailed  = Messages.Declare("", "The Pod failed before its command ended: {reason}: {message}",
		"Correct what the message names.")
	messagePodEnded = Messages.Declare("", "The Pod ended with phase {phase}.",
		"If the phase is Failed, read the Events of the Pod and of its node.")
	messageInjectedEnded = Messages.Declare("",
		"The Pod failed before its command started: container {container} with image {image}, "+pods.InjectedWords+
			", ended with exit code {code}.",
		"If podTemplate of the spec adds the container, correct it there; for an At, create another At. Otherwise ask "+
			"whoever adds the container to Pods.")
)
