package children

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages about owned objects: see docs/messages.md.
var Messages = controller.NewCatalog("Owned objects")

// reasonTerminating is the reason of an owner that waits for a deletion.
const reasonTerminating = "Terminating"

var (
	messageNameConflict = Messages.Declare("NameConflict", "{kind} {object} already exists and belongs to {owner}; "+
		"delete it, or create this {owning kind} under another name",
		"Delete the object, or choose another name. The operator continues within 30 s.")
	messageEarlierOwner = Messages.Declare(reasonTerminating, "Waiting for the deletion of {kind} {name}, which "+
		"belongs to an earlier {owner} of this name.", "Wait for the garbage collector.")
	messageTerminating = Messages.Declare(reasonTerminating, "{kind} {name} is being deleted. The operator creates "+
		"it again after the deletion.",
		"Wait. If the deletion takes long, look at the finalizers of the object.")
	messageRewritten = Messages.Declare("ChangedByAdmission",
		"The API server keeps other values in {kind} {object} than the operator has written: {fields}. "+
			"Most likely a mutating policy or webhook changes them. "+
			"The operator writes them again only if the desired or the observed values change, or when it starts again.",
		"Nothing to do if the policy is intended. Otherwise exclude the object from the policy: "+
			"see `kubectl get mutatingadmissionpolicies,mutatingwebhookconfigurations`. Then restart the operator.")
	messageExceeded = Messages.Declare("NamespaceBudgetExceeded", "{error}",
		"Make the object smaller, or delete large objects of the namespace.")
)
