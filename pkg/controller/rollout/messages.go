package rollout

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages about Deployments: see docs/messages.md.
var Messages = controller.NewCatalog("Deployments")

var (
	messageRollingOut = Messages.Declare("RollingOut", "The newest Pods are being rolled out.", "Wait.")
	messagePaused     = Messages.Declare(paused, "The newest Pods are not rolled out, because Deployment {deployment} is "+
		"paused. To resume the rollout, run `kubectl rollout resume deployment -n {namespace} {deployment}`.",
		"Resume the rollout when you want the newest Pods.")
	messageAvailable = Messages.Declare("Available", "The newest Pods are rolled out and available.", "Nothing to do.")
	messageUnready   = Messages.Declare("PodsUnavailable", "Not all Pods are available. See `kubectl get pods -n "+
		"{namespace} -l {labels}`.",
		"Look at the Pods that are not ready: their probe, their log and their node.")
	messageDeadline = Messages.Declare(deadlineExceeded, "{message}",
		"The rollout has made no progress for 10 minutes, or for rollout.progressDeadlineSeconds of the App. Look at "+
			"the state and the log of the newest Pods.")
	// The reason of messageFailure is the reason of the Deployment's condition ReplicaFailure, for example FailedCreate.
	messageFailure = Messages.Declare("", "{message}", "The API server rejects the Pods: correct what the message "+
		"names, such as a quota.")
)
