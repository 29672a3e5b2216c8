package references

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages about named objects: see docs/messages.md.
var Messages = controller.NewCatalog("Named objects")

var messageMissing = Messages.Declare("DependencyMissing", "Waiting for ConfigMap {name}, which the spec names, "+
	"to be created.", "Create the ConfigMap, or correct its name in the spec.")
