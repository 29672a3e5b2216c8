package packed

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages of ExceededError: see docs/messages.md.
var Messages = controller.NewCatalog("Large owned objects")

var (
	messageTooLarge = Messages.Declare("", "{object} has {size} bytes, and at most {limit} are allowed; make it smaller", "Make the object smaller.")
	messageExceeded = Messages.Declare("", "{object} is not cached, because the large objects of namespace {namespace} have more than {limit} bytes in total; make some of them smaller, or delete some",
		"Make large objects of the namespace smaller, or delete some.")
)
