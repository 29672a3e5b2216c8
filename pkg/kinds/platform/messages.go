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
	messageReady = Messages.Declare("ComponentsReady", "Every Managed component is Ready, and every Removed component "+
		"is deleted.", "Nothing to do.")
	messageNotReady = Messages.Declare(reasonNotReady, "The Platform is not Ready.",
		"Read the conditions Degraded and Stalled.")
	messageOpen = Messages.Declare(reasonNotReady, "{count} of {all} components are not ready. {components}",
		"Wait, or look at the first component that the message names.")
	messageDegraded = Messages.Declare("ComponentDegraded", "Components with a problem: {components}. {message}",
		"Correct these components: `kubectl describe` shows their conditions and Events.")
	messageMore     = Messages.Declare("", "; and {count} more", "Read status.components, which lists all of them.")
	messageDeleting = Messages.Declare("RemovingComponents", "Removing components: {count} left. {components}",
		"Wait, or look at the first component that the message names.")
	messageEmpty = Messages.Declare(reasonInvalid, "Component {component} has none of the fields app, database, "+
		"externalDatabase and at. Set one of these fields.", "Set one of the fields.")
	messageUnknown = Messages.Declare(reasonInvalid, "Component {component} depends on {dependency}, but this "+
		"Platform has no such component. Correct dependsOn.", "Correct dependsOn.")
	messageCycle = Messages.Declare("DependencyCycle", "Components depend on each other in a cycle: {components}. "+
		"Remove one of these dependencies from dependsOn.", "Remove one of these dependencies.")
	messageNotAllowed = Messages.Declare("NamespaceNotAllowed", "Namespace {namespace} belongs to {owner}, and no "+
		"Platform may use it. Create a Platform with another namespace in place of this "+
		"Platform.", "Choose another namespace.")
	messageTerminating = Messages.Declare(reasonTerminating,
		"Namespace {namespace} is being deleted, and the operator does not create it again. After the deletion, create it "+
			"with its labels, quotas, policies and role bindings. If nobody needs the Platform, delete the Platform instead.",
		"Create the namespace again. If nobody needs the Platform, delete the Platform instead.")
	messageNamespace = Messages.Declare(reasonNamespace, "Namespace {namespace} was not found.",
		"Wait: the operator is about to observe the namespace.")
	messageGone = Messages.Declare("NamespaceGone",
		"Namespace {namespace} was deleted with its labels, quotas, policies and role bindings, and the operator does not "+
			"create it again. Create the namespace again with all of these. If nobody needs the Platform, delete the Platform "+
			"instead.",
		"Create the namespace again. If nobody needs the Platform, delete the Platform instead.")
	messageNoNamespace = Messages.Declare(reasonForbidden, "Creating Namespace {namespace} failed: {error}. Create the "+
		"namespace yourself, or allow the service account of the operator to create "+
		"namespaces.", "Create the namespace, or grant the permission.")
	messageForbidden = Messages.Declare(reasonForbidden,
		"component {component}: {error}. Ask the administrator of namespace {namespace} to grant the permission to the "+
			"service account of the operator, or to change the quota or the admission policy that forbids the request.",
		"Grant the permission, or change the quota or the policy.")
)

// Messages of components. The reason of a component with a child is the reason of the child's condition Ready.
var (
	messageWaiting = Messages.Declare(reasonWaiting, "Waiting for {components} to be Ready.",
		"Look at the components that the message names.")
	messageStaying = Messages.Declare(reasonWaiting, "Waiting for {components} to succeed. Until then, {kind} {name} "+
		"stays as it is.", "Look at the tasks that the message names.")
	messageHeld = Messages.Declare("NeededByComponents", "Waiting for the deletion of components that depend "+
		"on this component: {components}.", "Wait. If one of these components is Managed, remove this component from its "+
		"dependsOn.")
	messageSuccession = Messages.Declare(reasonReplacing, "Waiting for the deletion of the previous child of this "+
		"component, which has another kind.", "Wait.")
	messageCrowded = Messages.Declare(reasonReplacing, "Waiting for the deletion of components that are no "+
		"longer in the spec. More than {count} of them are left.", "Wait.")
	messageAnnounced  = Messages.Declare(reasonNew, "The operator is about to create the {kind}.", "Wait.")
	messageUnobserved = Messages.Declare(reasonNew, "{kind} {name} has not reported its status yet.", "Wait.")
	messageNoHome     = Messages.Declare(reasonNamespace, "Waiting for the namespace of the Platform.",
		"Read the condition Ready of the Platform.")
	messageRejectedSpec = Messages.Declare(reasonInvalid, "The spec of the Platform is invalid. The condition Ready "+
		"of the Platform names the error.", "Read the condition Ready of the Platform.")
	messageRemoving    = Messages.Declare(reasonRemoving, "{kind} {name} is being deleted.", "Wait.")
	messageRemovalSays = Messages.Declare(reasonRemoving, "{kind} {name} is being deleted. Its condition Ready "+
		"says: {message}", "Follow the message of the child.")
	messageUnfinished = Messages.Declare(reasonChanged,
		"The spec has changed, but At {name} still runs with its previous spec. After its command has ended, the operator "+
			"creates the At again. To stop the command now, delete the At.", "Wait, or delete the At.")
	messageRerun = Messages.Declare(reasonChanged, "The spec has changed since At {name} ran. The operator is "+
		"about to delete the At and to create it again.", "Wait.")
	messageRecreated = Messages.Declare(reasonChanged, "The spec has changed since At {name} ran. The At is being "+
		"deleted, and the operator creates it again.", "Wait.")
	messageChild = Messages.Declare("", " Its condition Ready says: {message}", "Follow the message of the child.")
)
