package app

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages of App: see docs/messages.md.
var Messages = controller.NewCatalog("App")

// Reasons of several messages.
const (
	reasonMissing = "DependencyMissing"
	// reasonRun is the reason while the rollout waits for the command of beforeRollout.
	reasonRun = "BeforeRolloutRunning"
)

var (
	messageMissing = Messages.Declare(reasonMissing, "Waiting for {objects}, which the spec names, to be created.",
		"Create the Secret or ConfigMap, or remove its name from the spec.")
	messageNoDatabase = Messages.Declare(reasonMissing, "Waiting for {kind} {name}, which databaseRef names, to be "+
		"created.",
		"Create the Database or ExternalDatabase, or change spec.databaseRef.")
	messageDatabaseMissing = Messages.Declare(reasonMissing,
		"{kind} {name}, which databaseRef names, was not found, and the garbage collector deletes its Secret. Create "+
			"the {kind} again, or change databaseRef.",
		"Create the database again, or change spec.databaseRef.")
	messageOtherDatabase = Messages.Declare("DatabaseKindMismatch",
		"Secret {secret} belongs to {owner} {database}, but databaseRef names {kind} {name}. Set databaseRef.kind to "+
			"{owner}, or databaseRef.name to another {kind}.",
		"Correct spec.databaseRef.")
	messageDatabaseTerminating = Messages.Declare("DatabaseTerminating", "{kind} {name}, which databaseRef names, is "+
		"being deleted. Change databaseRef or, if nobody needs the App, delete the App.",
		"Change spec.databaseRef. If nobody needs the App, delete it.")
	messageDatabaseNotReady = Messages.Declare("DatabaseNotReady", "Waiting for {kind} {name}, which databaseRef "+
		"names, to become Ready{reason}. Then the operator creates the Deployment.",
		"Wait. If the database does not become Ready, read its conditions.")
	messagePodTemplate = Messages.Declare("InvalidPodTemplate", "{problem}. Until you correct spec.podTemplate, the "+
		"operator does not create or change the Deployment.",
		"Correct spec.podTemplate. `kubectl windlass plan` checks it before you apply it.")
	messageCannotGrow = Messages.Declare("StorageCannotGrow", "The volume of PersistentVolumeClaim {claim} keeps its "+
		"size {size}: {error}. Set the size of the claim in spec.volumes to {size}, or copy the data to another volume.",
		"Set the size of the claim to the size of the volume, or use a storage class that allows expansion.")
	messageVolumeInUse = Messages.Declare("VolumeInUse", "Waiting for the previous Pods, which use PersistentVolumeClaim "+
		"{claim}, to end. Then the operator creates the Deployment.", "Wait until the Pods have ended.")
	messageOtherVolume = Messages.Declare("VolumeMismatch", "PersistentVolumeClaim {claim} of a previous App or volume "+
		"has the storage class {class} and the access modes {modes}, which cannot be changed. To use its data, set both in "+
		"spec.volumes. For an empty volume, give the volume another name.",
		"Use the storage class and the access modes of the claim, or another name for the volume.")
	messageVolumeDeleted = Messages.Declare("VolumeDeleted", "PersistentVolumeClaim {claim} is being deleted. When "+
		"the Pods of the App end, its data is lost, and an empty volume replaces the volume. Copy the data now. While the "+
		"claim is being deleted, the operator does not change the Deployment.", "Copy the data now. Then delete the Pods.")
	messageSelector = Messages.Declare("CannotBeAdopted", "Deployment {deployment} cannot be adopted: its selector "+
		"{problem}. Create this App under another name, and then move the clients.",
		"Create the App under another name, and then move the clients.")
	messageLostLabels = Messages.Declare("CannotBeAdopted", "With this App, the Pods of Deployment {deployment} would "+
		"lose labels, and Service {service} would not select them: {selector}. Set these labels in "+
		"spec.podTemplate.metadata.labels. Then the operator adopts the Deployment.",
		"Set the labels in the App.")
	messageLostAddress = Messages.Declare("CannotBeAdopted", "With this App, Service {service} would lose {address}, "+
		"which clients may use. Set it in spec.service and spec.ports of the App, or remove it from the Service. Then the "+
		"operator adopts the Service.",
		"Give the App the same type of the Service and the same ports, with servicePort.")
	messageReverted = Messages.Declare("TemplateReverted",
		"Another client changed the Pod template of Deployment {deployment}, for example with `kubectl rollout "+
			"undo`. The operator reverted this change. To roll back, apply the previous manifest of App {app}.",
		"Change the App, not its Deployment.")
	messageAutoscaler = Messages.Declare("ReplicasIgnored",
		"HorizontalPodAutoscaler {autoscaler} scales Deployment {app}. The operator leaves the number of Pods to it, and "+
			"spec.replicas of App {app} has no effect.{advice}",
		"Nothing to do, or follow the advice of the message.")
	messageScaleApp = Messages.Declare("", " To let {scaler} scale the App instead, first set spec.replicas of the App "+
		"to the number of Pods of the Deployment, so that no Pod ends. Then set spec.scaleTargetRef of {scaler} to {target}.",
		"Set spec.replicas of the App to the number of Pods, and then the target to the App.")
	messageInactive = Messages.Declare("", " HorizontalPodAutoscaler {autoscaler} has not been able to scale the App "+
		"since {time}, for the reason {reason}. See `kubectl describe hpa -n {namespace} {autoscaler}`. For "+
		"metrics of CPU and memory, the cluster needs metrics-server, and for other metrics an adapter.",
		"For CPU and memory, check that `kubectl top pods` shows the Pods of the App. If not, install or repair "+
			"metrics-server. For other metrics, check the adapter that provides them.")
	messageRoutePending = Messages.Declare("RoutePending", "Waiting for {gateways} to accept {kind} {route}. If this "+
		"takes long, check that the Gateway exists, and that the controller of its GatewayClass runs.",
		"Wait. If it takes long, check that the Gateway exists, that its namespace and name in spec.route.parentRefs are "+
			"right, and that the controller of its class runs.")
	messageRouteRejected = Messages.Declare("RouteRejected",
		"{gateway} does not serve {kind} {route}: {problem} Correct spec.route, the Gateway, or the object that the problem "+
			"names.",
		"parentRefs and hostnames of spec.route must match a listener of the Gateway, and the Gateway must allow routes "+
			"from the namespace of the App.")
	messageRouteAccepted = Messages.Declare("", " {kind} {route} is accepted by {gateways}.", "Nothing to do.")
	// The reason of messagePods is the reason of the problem.
	messagePods = Messages.Declare("", "Pod {pod}, created at {time}: {problem}. {count} of {all} {which} have a "+
		"problem; {ready} Pods are ready. See `{command}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")

	messageRun = Messages.Declare(reasonRun, "Pod {pod} runs beforeRollout. The operator rolls out the Pod template "+
		"after the command has succeeded. To stop the command, run `kubectl delete pod -n {namespace} {pod}`; the "+
		"run then counts as failed.",
		"Wait. To stop the command, delete the Pod: the run then counts as failed.")
	messageOutdatedRun = Messages.Declare(reasonRun,
		"Pod {pod} runs beforeRollout for a previous spec. The operator waits until the command ends. To stop the command, "+
			"run `kubectl delete pod -n {namespace} {pod}`.",
		"Wait, or delete the Pod.")
	messageRunDeletion = Messages.Declare(reasonRun, "Pod {pod} of the previous run of beforeRollout is being deleted. "+
		"After the deletion, beforeRollout runs for the new Pod template.",
		"Wait. If the deletion takes long, look at the node and the finalizers of the Pod.")
	messageRunEnded = Messages.Declare(reasonRun, "The command of beforeRollout has ended. The operator stores the "+
		"result, and then continues.", "Wait.")
	// The reason of messageRunNotStarting is the reason of the problem.
	messageRunNotStarting = Messages.Declare("", "Pod {pod}, which runs beforeRollout, does not start: {problem}. "+
		"See `kubectl describe pod -n {namespace} {pod}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")
	messageRunFailed = Messages.Declare("BeforeRolloutFailed",
		"beforeRollout failed: {cause}{previous} Correct the cause. The operator runs the command again after a change of "+
			"beforeRollout, of the Pod template, or of a Secret or ConfigMap that the Pod template uses. See `kubectl logs -n "+
			"{namespace} {pod}`.",
		"Correct the command or the template, or apply the previous manifest. To run the same command again, change "+
			"beforeRollout.args or a variable in env.")
	messagePreviousStay = Messages.Declare("", " The Pods of the previous template keep running.", "Nothing to do.")
	messageRunLost      = Messages.Declare("", "Pod {pod} was deleted before the operator saw how its command ended.",
		"The command may have run in part: check its effects. To run it again, change beforeRollout.args or a "+
			"variable in env.")
	messageRunReplaced = Messages.Declare("", "The spec changed before the command started: {problem}.",
		"Nothing to do. If you apply the previous spec again, also change beforeRollout.args or a variable in env.")
)
