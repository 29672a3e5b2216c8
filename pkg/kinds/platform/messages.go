package platform

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages of Platform: see docs/messages.md.
var Messages = controller.NewCatalog("Platform")

// Reasons with several messages.
const (
	reasonInvalid     = "InvalidSpec"
	reasonForbidden   = "Forbidden"
	reasonNamespace   = "NamespaceMissing"
	reasonTerminating = "NamespaceTerminating"
	reasonWaiting     = "WaitingForComponents"
	reasonReplacing   = "ReplacingComponent"
	reasonNew         = "NotObserved"
	reasonChanged     = "TaskChanged"
	reasonNotReady    = "ComponentsNotReady"
	reasonRemoving    = "Removing"
)

// Conditions of a Platform.
var (
	messageReady = Messages.Declare("ComponentsReady", "Every Managed component is Ready, and every Removed "+
		"one is gone.", "Nothing to do.")
	messageNotReady = Messages.Declare(reasonNotReady, "Not ready.", "Read the conditions Degraded and Stalled.")
	messageOpen     = Messages.Declare(reasonNotReady, "Not ready: {count} of {all} components. {components}",
		"Wait, or look at the first component that the message names.")
	messageDegraded = Messages.Declare("ComponentDegraded", "Look at {components}. {message}",
		"Look at these components: `kubectl describe` shows their conditions and Events.")
	messageMore     = Messages.Declare("", "; and {count} more", "Read status.components, which lists all of them.")
	messageDeleting = Messages.Declare("RemovingComponents", "Removing components: {count} left. {components}",
		"Wait, or look at the first component that the message names.")
	messageEmpty = Messages.Declare(reasonInvalid, "component {component} has none of the fields app, database, "+
		"externalDatabase and at; set one of them", "Set one of the fields.")
	messageUnknown = Messages.Declare(reasonInvalid, "component {component} depends on unknown component "+
		"{dependency}; remove it from dependsOn", "Correct dependsOn.")
	messageCycle = Messages.Declare("DependencyCycle", "components depend on each other in a cycle: "+
		"{components}; remove one of these dependencies from dependsOn", "Remove one of these dependencies.")
	messageNotAllowed = Messages.Declare("NamespaceNotAllowed", "namespace {namespace} belongs to {owner}, and no "+
		"Platform may use it; delete this Platform, and create one with another namespace", "Choose another namespace.")
	messageTerminating = Messages.Declare(reasonTerminating,
		"Namespace {namespace} is being deleted, and the operator does not create it again. After the deletion, "+
			"create it with its labels, quotas, policies and role bindings, or delete the Platform.",
		"Create the namespace again, or delete the Platform.")
	messageNamespace = Messages.Declare(reasonNamespace, "Namespace {namespace} was not found.",
		"Wait: the operator is about to observe the namespace.")
	messageGone = Messages.Declare("NamespaceGone",
		"namespace {namespace} was deleted with its labels, quotas, policies and role bindings, and the operator "+
			"does not create it again; create it again with all of these, or delete this Platform",
		"Create the namespace again, or delete the Platform.")
	messageNoNamespace = Messages.Declare(reasonForbidden, "creating Namespace {namespace}: {error}; create it "+
		"yourself, or allow the service account of the operator to create it", "Create the namespace, or grant the right.")
	messageForbidden = Messages.Declare(reasonForbidden,
		"component {component}: {error}; ask the administrator of namespace {namespace} to grant the operator's "+
			"service account the permission, or to change the quota or the admission policy that forbids the request",
		"Grant the right, or change the quota or the policy.")
)

// Messages of components. The reason of a component with a child is the reason of the child's condition Ready.
var (
	messageWaiting = Messages.Declare(reasonWaiting, "Waiting for {components} to be Ready.",
		"Look at the components that the message names.")
	messageStaying = Messages.Declare(reasonWaiting, "Waiting for {components} to succeed. Until then, {kind} {name} "+
		"stays as it is.", "Look at the tasks that the message names.")
	messageHeld = Messages.Declare("NeededByComponents", "Waiting for the deletion of components that depend "+
		"on this component: {components}.", "Wait. If one of these components is Managed, set it to Removed, or "+
		"correct its dependsOn.")
	messageSuccession = Messages.Declare(reasonReplacing, "Waiting for the deletion of this component's former "+
		"child, which has another kind.", "Wait.")
	messageCrowded = Messages.Declare(reasonReplacing, "Waiting for the deletion of components that are no "+
		"longer in the spec. More than {count} of them are left.", "Wait.")
	messageAnnounced  = Messages.Declare(reasonNew, "The operator is about to create the {kind}.", "Wait.")
	messageUnobserved = Messages.Declare(reasonNew, "{kind} {name} has not reported its status yet.", "Wait.")
	messageNoHome     = Messages.Declare(reasonNamespace, "Waiting for the namespace.",
		"Read the condition Ready of the Platform.")
	messageRefusedSpec = Messages.Declare(reasonInvalid, "The spec of the Platform is invalid. The condition Ready "+
		"of the Platform names the error.", "Read the condition Ready of the Platform.")
	messageRemoving    = Messages.Declare(reasonRemoving, "{kind} {name} is being deleted.", "Wait.")
	messageRemovalSays = Messages.Declare(reasonRemoving, "{kind} {name} is being deleted. Its condition Ready "+
		"says: {message}", "Follow the message of the child.")
	messageUnfinished = Messages.Declare(reasonChanged,
		"The spec has changed, but At {name} still runs with its former spec. After its command has ended, the "+
			"operator creates the At again. To end the command now, delete the At.", "Wait, or delete the At.")
	messageRerun = Messages.Declare(reasonChanged, "The spec has changed since At {name} ran. The operator is "+
		"about to delete the At and to create it again.", "Wait.")
	messageRecreated = Messages.Declare(reasonChanged, "The spec has changed since At {name} ran. The At is being "+
		"deleted, and the operator creates it again.", "Wait.")
	messageChild = Messages.Declare("", " Its condition Ready says: {message}", "Follow the message of the child.")
)
