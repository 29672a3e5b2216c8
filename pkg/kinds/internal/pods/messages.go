package pods

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages about Pods: see docs/messages.md. Most of them are a clause in a message of a kind,
// and the conditions of that kind have their reason.
var Messages = controller.NewCatalog("Pods")

// Advice for several messages.
const (
	checkNode       = "Check the network and the configuration of the node."
	readLog         = "Read the log of the container. Correct the image, the command, the environment or the limits."
	correctSpec     = "Correct the spec, or what the message names, such as a key of a Secret."
	partOfMessage   = "Nothing to do: this text is part of another message."
	correctInjected = "if the podTemplate of the spec adds the container, correct it there; otherwise ask whoever adds " +
		"it to Pods, for example the administrator of a service mesh, to correct it or to exclude this Pod"
)

// Messages about the causes of ImagePullBackOff.
var (
	messageImageDenied = Messages.Declare(ReasonImagePull, "the registry does not let the node pull the image "+
		"{image}; check its name, and imagePullSecrets", "Correct the image or imagePullSecrets.")
	messageImageMissing = Messages.Declare(ReasonImagePull, "the image {image} was not found in its registry",
		"Correct the image, or push it.")
	messageImageCertificate = Messages.Declare(ReasonImagePull, "the node does not trust the certificate of the "+
		"registry of the image {image}", "Let the node trust the authority that signed the certificate.")
	messageImageUnreachable = Messages.Declare(ReasonImagePull, "the node cannot reach the registry of the "+
		"image {image}", checkNode)
	messageImagePull = Messages.Declare(ReasonImagePull, "the image {image} cannot be pulled",
		"Correct the image or imagePullSecrets. The Events of the Pod have the error.")
)

var (
	messageImageName = Messages.Declare("InvalidImageName", "the name of the image {image} is invalid",
		"Correct the image.")
	messageConfig     = Messages.Declare("CreateContainerConfigError", "{message}", correctSpec)
	messageNotCreated = Messages.Declare("CreateContainerError", "the container cannot be created",
		"Read the Events of the Pod.")
	messageNotStarted = Messages.Declare(ReasonCrashing, "the container does not start: {error}",
		"Correct the command, and check that the image has it.")
	messageKilled = Messages.Declare(ReasonCrashing, "the container exceeded its memory limit and was killed",
		"Raise resources.limits.memory, or correct the program.")
	messageCrashed       = Messages.Declare(ReasonCrashing, "the container ended with exit code {code}", readLog)
	messageUnschedulable = Messages.Declare(ReasonUnschedulable, "the scheduler found no node for the Pod",
		"Lower resources.requests, or add a node.")
	messageScheduler = Messages.Declare("", "The scheduler says: {message}.", partOfMessage)
	messageLog       = Messages.Declare("", LogWords+"{line}", partOfMessage)
)

// Messages about problems of containers that the operator does not generate. The reason of messageInjected is the
// reason of {problem}.
var (
	messageInjected = Messages.Declare("",
		"container {container} with image {image}, "+InjectedWords+", does not run: {problem}; "+correctInjected,
		"If podTemplate of the spec adds the container, correct it there; for an At, create another At. Otherwise ask "+
			"whoever adds the container to Pods. "+
			"`kubectl logs -c` shows the log of the container.")
	messageInitializing = Messages.Declare(ReasonInitializing,
		"container {container} with image {image}, "+InjectedWords+", has run for more than {time}, "+
			"and the other containers of the Pod wait for it; "+correctInjected,
		"Wait if the container may take that long. Otherwise look at its log with `kubectl logs -c`.")
)

// Messages about Pods that the API server rejects.
var (
	messageRejected = Messages.Declare("PodRejected", "The API server rejected Pod {pod}: {error}. {advice}. The "+
		"operator retries within {time}.", "Follow the advice in the message.")
	adviceForQuota      = Messages.Declare("", "Raise the quota, or wait until other Pods end", partOfMessage)
	messageRejectedPods = Messages.Declare(messageRejected.Reason,
		"The API server rejects Pods of Deployment {deployment}: {error}. {advice}.", "Follow the advice in the message.")
	adviceForRollouts  = Messages.Declare("", "Raise the quota: a rollout needs room for one more Pod", partOfMessage)
	adviceForResources = Messages.Declare("", "Set spec.resources to what the namespace allows", partOfMessage)
	adviceForWebhooks  = Messages.Declare("", "Ask the administrator of the cluster to repair the admission webhook",
		partOfMessage)
	adviceForRejections = Messages.Declare("", "Ask the administrator of the namespace which Pods are allowed",
		partOfMessage)
)
