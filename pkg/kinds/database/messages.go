package database

import (
	"regexp"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Messages declares the messages of Database: see docs/messages.md.
var Messages = controller.NewCatalog("Database")

var (
	messageStarting = Messages.Declare("Starting",
		"PostgreSQL is starting. If it does not become ready, see `kubectl describe -n {namespace} sts/{name} "+
			"pod/{pod} pvc/{name}`.", "Wait.")
	messageAvailable      = Messages.Declare("Available", "PostgreSQL takes connections.", "Nothing to do.")
	messageRestartPending = Messages.Declare("RestartPending",
		"PostgreSQL takes connections. These changes take effect at its next restart: {names}. To restart it, run "+
			"`kubectl annotate database -n {namespace} {name} --overwrite windlass.dev/restart=$(date +%s)`.",
		"Restart PostgreSQL at a time when its clients can reconnect.")
	messageApplying = Messages.Declare("ApplyingSettings", "PostgreSQL takes connections, and is about to "+
		"apply the settings that changed.", "Wait.")
	messageSettingsRefused = Messages.Declare("SettingsRefused", "{problem} PostgreSQL continues to run with the "+
		"former settings; correct the spec",
		"Correct the spec. The log of the Pod has more.")
	messageNotApplied = Messages.Declare("SettingsNotApplied",
		"PostgreSQL has not applied the settings that changed; see `kubectl logs -n {namespace} {pod}`",
		"Read the log. To restart PostgreSQL, annotate the Database with windlass.dev/restart.")
	messageRotated = Messages.Declare("CredentialsRotated", "Secret {secret} has the login {login} with a new "+
		"password. PostgreSQL accepts the former login {former} until no known client uses it, at least for the "+
		"grace period.", "Nothing to do.")
	messageRetired = Messages.Declare("FormerLoginRetired", "PostgreSQL ends the former login {former}, and "+
		"closes its connections.", "Nothing to do.")
	messageAwaitServer = Messages.Declare("", "PostgreSQL to accept the login {login}", "Wait.")
	messageAwaitProof  = Messages.Declare("", "the operator to log in as {login}, which it cannot: the operator "+
		"must reach the Pod, without --connect-to-databases=false", "Let the operator reach the Pods of Databases.")
	messageAwaitProblem = Messages.Declare("", "PostgreSQL to accept the settings; the condition Ready says "+
		"what is wrong", "Correct the cause that the condition Ready names.")
	messageGrowing = Messages.Declare("StorageGrowing", "The volume grows from {size} to {requested}; see "+
		"`kubectl describe pvc -n {namespace} {claim}`.", "Wait.")
	messageNotStarting = Messages.Declare("", "Pod {pod} does not start: {problem}. See `kubectl describe pod -n "+
		"{namespace} {pod}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")
	messagePodNotReady = Messages.Declare("",
		"PostgreSQL runs, but Pod {pod} is not ready: {problem}. See `kubectl describe pod -n {namespace} {pod}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")
	messagePodMissing = Messages.Declare("PodMissing",
		"StatefulSet {statefulset} has not created Pod {pod}, and the API server does not tell the operator why. "+
			"See the Events at the end of `kubectl describe sts -n {namespace} {statefulset}`.",
		"Correct what the Events name, such as a policy for the StatefulSet controller, or another Pod with this name.")
	messagePodTaken = Messages.Declare("PodMissing",
		"Pod {pod} exists, but StatefulSet {statefulset} does not own it, so that the StatefulSet cannot create its Pod. "+
			"See `kubectl describe pod -n {namespace} {pod}`, and ask whoever created the Pod to give it another name.",
		"Ask whoever created the Pod to replace it by a Pod with another name.")
	messageCrashing = Messages.Declare(pods.ReasonCrashing, "{cause} See `kubectl logs -n {namespace} {pod} --previous`.",
		"Read the log. The cause is a message of the table [Starting PostgreSQL](#starting-postgresql), or the error "+
			"of PostgreSQL.")
	messageEnded = Messages.Declare("", "PostgreSQL ended with exit code {code}.",
		"Nothing to do: it is part of another message.")

	messageInvalidPassword = Messages.Declare("InvalidPassword",
		"PostgreSQL keeps its current password, because the password in Secret {secret} contains a line break or "+
			"another control character; change the password, or delete the Secret to generate a new one",
		"Change the password in the Secret, or delete the Secret.")
	messageCannotGrow = Messages.Declare("StorageCannotGrow",
		"the size of the volume stays {size}: {error}; set storage.size back to {size}, or copy the data to another Database",
		"Set spec.storage.size back, or use a storage class that allows expansion.")
	messageOtherClass = Messages.Declare("StorageClassMismatch",
		"PersistentVolumeClaim {claim} of an earlier Database has storage class {class}, not {wanted}; delete this "+
			"Database and create it again with storage class {class}, or delete the claim and its data",
		"Create the Database again with the storage class of the claim.")
	messageVolumeLost = Messages.Declare("VolumeLost", "The volume of PersistentVolumeClaim {claim} is lost; see "+
		"`kubectl describe pvc -n {namespace} {claim}`.", "Restore the volume, or delete the claim to begin with "+
		"an empty one.")
	messageVolumeDeleted = Messages.Declare("VolumeDeleted",
		"PersistentVolumeClaim {claim} is being deleted: when the Pod stops, the data is lost, and an empty volume "+
			"replaces it; copy the data now, with pg_dump",
		"Copy the data now.")
)

// StartMessages declares the messages of server.sh, which become the cause in the messages CrashLoopBackOff and
// SettingsRefused.
var StartMessages = messagesIn(serverScript)

// failure matches a message of server.sh.
var failure = regexp.MustCompile(`(?:fail |note_problem |why=)"([A-Z][^"]+)"`)

func messagesIn(script string) *controller.Catalog {
	catalog := controller.NewCatalog("Starting PostgreSQL")
	for _, found := range failure.FindAllStringSubmatch(script, -1) {
		catalog.Declare("", found[1], "Follow the message. `kubectl logs --previous` has more.")
	}
	return catalog
}
