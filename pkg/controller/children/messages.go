package children

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages about owned objects: see docs/messages.md.
var Messages = controller.NewCatalog("Owned objects")

// reasonTerminating is the reason of an owner that waits for a deletion.
const reasonTerminating = "Terminating"

var (
	messageNameConflict = Messages.Declare("NameConflict", "{kind} {object} already exists and belongs to {owner}. "+
		"Create this {owning kind} under another name. If nobody needs the {kind}, delete the {kind} instead.",
		"Choose another name. If nobody needs the existing object, delete the existing object instead: the operator "+
			"continues within 30 s.")
	messageAdoptable = Messages.Declare("NameConflict", "{kind} {object} already exists and belongs to nobody. Create "+
		"this {owning kind} under another name. If nobody needs the {kind}, delete the {kind} instead. This {owning kind} "+
		"can also adopt the {kind}, and then replaces the spec or data of the {kind}: for this, set the annotation "+
		"windlass.dev/adopt={owner} on the {kind}.",
		"Choose another name. If nobody needs the existing object, delete the existing object instead. Before you set the "+
			"annotation, read [moving.md](moving.md).")
	messageAdoptionWaits = Messages.Declare("WaitingToAdopt", "Waiting for {workload kind} {workload} to belong to this "+
		"{owner} and to be available. Then the operator adopts Service {service}.",
		"Wait. If the message also reports a problem of the workload, correct that problem first. If the Pods do not "+
			"become available, read their logs.")
	messageEarlierOwner = Messages.Declare(reasonTerminating, "Waiting for the deletion of {kind} {name}, which belongs "+
		"to a previous {owner} of this name.", "Wait for the garbage collector.")
	messageTerminating = Messages.Declare(reasonTerminating, "{kind} {name} is being deleted. The operator creates "+
		"it again after the deletion.",
		"Wait. If the deletion takes long, look at the finalizers of the object.")
	messageRewritten = Messages.Declare("ChangedByAdmission",
		"The API server stores other values in {kind} {object} than the operator writes: {fields}. Most likely, a mutating "+
			"admission policy or webhook changes these values. The operator writes the values again only after a change of "+
			"the desired or the observed values, or after a restart of the operator.",
		"Nothing to do if the policy is intended. Otherwise exclude the object from the policy: "+
			"see `kubectl get mutatingadmissionpolicies,mutatingwebhookconfigurations`. Then restart the operator.")
	messageTypeMissing = Messages.Declare("KindNotInstalled", "The cluster does not have the kind {kind}. Install "+
		"{provider}, or remove the field of the spec that needs the kind. The operator tries again every minute.",
		"Install what the message names, or change the spec.")
	messageExceeded = Messages.Declare("NamespaceBudgetExceeded", "{error}",
		"Make the object or other large objects of the namespace smaller.")
)
