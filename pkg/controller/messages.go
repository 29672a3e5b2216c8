package controller

// Messages declares the messages of every kind: see docs/messages.md.
var Messages = NewCatalog("Every kind")

var (
	messagePaused = Messages.Declare("Paused", "The operator changes nothing for this object, because its annotation {annotation} is true. To continue, remove the annotation.",
		"Remove the annotation to continue.")
	messagePausedDeletion = Messages.Declare("Paused", "The deletion waits. {message}", "Remove the annotation, so that the operator can finish the deletion.")
	messageRoomAgain      = Messages.Declare("", "The budget of the namespace has room for the object again. The operator is about to read it.", "Wait.")
)
