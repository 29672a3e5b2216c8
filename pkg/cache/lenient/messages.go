package lenient

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages about objects that cannot be read: see docs/messages.md.
var Messages = controller.NewCatalog("Objects that are not reconciled")

var (
	messageTooLarge = Messages.Declare(ReasonTooLarge,
		"The object is not reconciled, because it has {size} bytes, and at most {limit} are allowed. "+
			"Make it smaller, or delete it.", "Make the object smaller, or delete it.")
	messageBudgetExceeded = Messages.Declare(ReasonBudgetExceeded,
		"The object is not reconciled, because the large objects of the namespace have more than {limit} bytes in total. "+
			"Make some of them smaller, or delete some. The operator then reconciles the object within a few minutes.",
		"Make large objects of the namespace smaller, or delete some.")
	messageUnreadable = Messages.Declare(ReasonUnreadable,
		"The object is not reconciled, because it cannot be read: {error}. Correct it, or delete it.",
		"Correct the object, or delete it.")
)
