package database

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/sets"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Messages declares the messages of Database: see docs/messages.md.
var Messages = controller.NewCatalog("Database")

const reasonMissing = "DependencyMissing"

// partOfMessage is the advice for a text that is part of another message.
const partOfMessage = "Nothing to do: this text is part of another message."

var (
	messageStarting = Messages.Declare("Starting",
		"PostgreSQL is starting. If it does not become ready, see `kubectl describe -n {namespace} sts/{name} "+
			"pod/{pod} pvc/{name}`.", "Wait.")
	messageAvailable      = Messages.Declare("Available", "PostgreSQL accepts connections.", "Nothing to do.")
	messageRestartPending = Messages.Declare("RestartPending",
		"PostgreSQL accepts connections. These changes wait for a restart: {names}. To restart PostgreSQL, run "+
			"`kubectl annotate database -n {namespace} {name} --overwrite windlass.dev/restart=$(date +%s)`.",
		"Restart PostgreSQL at a time when its clients can reconnect.")
	messagePodTemplate = Messages.Declare("InvalidPodTemplate", "{problem}. Until you correct spec.podTemplate, the Pod "+
		"template of the StatefulSet stays as it is: changes of image and resources wait.",
		"Correct spec.podTemplate. `kubectl windlass plan` checks it before you apply it.")
	messageApplying = Messages.Declare("ApplyingSettings", "PostgreSQL accepts connections, and is applying the changed "+
		"settings.", "Wait.")
	messageSettingsRejected = Messages.Declare("SettingsRejected", "{problem} PostgreSQL continues to run with the "+
		"previous settings. Correct the spec.",
		"Correct the spec. For details, see the log of the Pod.")
	messageNotApplied = Messages.Declare("SettingsNotApplied",
		"PostgreSQL has not applied the changed settings. See `kubectl logs -n {namespace} {pod}`.",
		"Read the log. To restart PostgreSQL, annotate the Database with windlass.dev/restart.")
	messageRotated = Messages.Declare("CredentialsRotated", "Secret {secret} has login {login} and a new password. "+
		"PostgreSQL accepts the previous login {previous} until the grace period has ended and no known client uses this "+
		"login.", "Nothing to do.")
	messageRetired = Messages.Declare("PreviousLoginRetired", "PostgreSQL retires the previous login {previous}, and "+
		"closes its connections.", "Nothing to do.")
	messageAwaitServer = Messages.Declare("", "PostgreSQL to accept the login {login}", "Wait.")
	messageAwaitProof  = Messages.Declare("", "the operator to log in as {login}; the operator must be able to connect "+
		"to the Pod, and must not have --connect-to-databases=false", "Let the operator reach the Pods of Databases.")
	messageAwaitProblem = Messages.Declare("", "PostgreSQL to accept the settings; see the condition Ready",
		"Correct the cause that the condition Ready names.")
	messageGrowing = Messages.Declare("StorageGrowing", "The volume grows from {size} to {requested}. See `kubectl "+
		"describe pvc -n {namespace} {claim}`.", "Wait.")
	messageNotStarting = Messages.Declare("", "Pod {pod} does not start: {problem}. See `kubectl describe pod -n "+
		"{namespace} {pod}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")
	messagePodNotReady = Messages.Declare("",
		"PostgreSQL runs, but Pod {pod} is not ready: {problem}. See `kubectl describe pod -n {namespace} {pod}`.",
		"Correct the cause, which the table [Pods](#pods) lists.")
	messagePodMissing = Messages.Declare("PodMissing",
		"StatefulSet {statefulset} has not created Pod {pod}. For the cause, see the Events in `kubectl describe sts -n "+
			"{namespace} {statefulset}`.",
		"Correct what the Events name, such as a policy for the StatefulSet controller, or another Pod with this name.")
	messagePodTaken = Messages.Declare("PodMissing",
		"Pod {pod} exists, but does not belong to StatefulSet {statefulset}, which needs a Pod of this name. See `kubectl "+
			"describe pod -n {namespace} {pod}`, and ask whoever created this Pod to use another name.",
		"Ask whoever created the Pod to use another name.")
	messageCrashing = Messages.Declare(pods.ReasonCrashing, "{cause} See `kubectl logs -n {namespace} {pod} --previous`.",
		"Read the log. The cause is a message of the table [Starting PostgreSQL](#starting-postgresql), or the error "+
			"of PostgreSQL.")
	messageEnded = Messages.Declare("", "PostgreSQL ended with exit code {code}.", partOfMessage)

	messageInvalidPassword = Messages.Declare("InvalidPassword",
		"PostgreSQL keeps its current password, because the password in Secret {secret} contains a line break or another "+
			"control character. Change the password, or delete the Secret to generate a new password.",
		"Change the password in the Secret, or delete the Secret.")
	messageNoCertificate = Messages.Declare(reasonMissing,
		"Waiting for Secret {secret}, which tls.secretName names, to be created.",
		"Create the Secret with tls.crt, tls.key and ca.crt, or remove tls.secretName: the operator then issues a "+
			"certificate.")
	messageInvalidCertificate = Messages.Declare("InvalidCertificate", "The certificate in Secret {secret} cannot be "+
		"used: {problem}. Until you correct the Secret, PostgreSQL keeps its previous certificate. Without a previous "+
		"certificate, no change of the Database takes effect.",
		"Correct the Secret, or the object from which a tool writes the Secret, such as a Certificate of cert-manager.")
	messageNoPair = Messages.Declare("", "tls.crt and tls.key are not a certificate and its key in PEM form: {error}",
		partOfMessage)
	messageWeakKey = Messages.Declare("", "the keys of the certificate and of its CA must be ECDSA, or RSA "+
		"with at least {bits} bits", partOfMessage)
	messageNoAuthority = Messages.Declare("", "ca.crt has no certificate in PEM form, but clients need the CA to verify "+
		"the server", partOfMessage)
	messageLargeCertificate = Messages.Declare("", "tls.crt and tls.key have more than {limit} KiB", partOfMessage)
	messageLargeAuthorities = Messages.Declare("", "ca.crt has more than {limit} KiB", partOfMessage)
	messageNotYetValid      = Messages.Declare("", "the certificate is not valid before {time}", partOfMessage)
	messageExpired          = Messages.Declare("", "the certificate expired at {time}", partOfMessage)
	messageOtherHost        = Messages.Declare("", "the certificate is not valid for the name {host}", partOfMessage)
	messageOtherAuthority   = Messages.Declare("", "clients that trust ca.crt reject the certificate, because no CA in "+
		"ca.crt issued it for a server with a secure signature", partOfMessage)
	messageNoRoot = Messages.Declare("", "ca.crt lacks the CA at the beginning of the chain, which signs itself: libpq "+
		"accepts no other CA", partOfMessage)
	messageCertificateNotLoaded = Messages.Declare("CertificateNotLoaded", "PostgreSQL has not loaded its new "+
		"certificate, and uses the previous one. See `kubectl logs -n {namespace} {pod}`.", "Read the log of the Pod.")
	messageVolumeFilling = Messages.Declare("VolumeFilling",
		"PostgreSQL accepts connections, but at least {percent} % of the volume of {size} are used. {advice}",
		"Do what the message says. When the volume is full, transactions are read-only.")
	messageVolumeFull = Messages.Declare("VolumeFull", "The volume of {size} is full. Transactions are read-only by "+
		"default until there is free space again. {advice} A user can delete data in a session with SET "+
		"default_transaction_read_only = off: see docs/database.md, section The volume.",
		"Do what the message says, or delete data: see [The volume](database.md#the-volume).")
	messageStoppedByVolume = Messages.Declare("VolumeFull",
		"The volume of {size} is so full that PostgreSQL does not start. {advice}", "Do what the message says.")
	messageVolumeNotObserved = Messages.Declare("VolumeNotObserved", "PostgreSQL accepts connections, but the volume "+
		"does not grow by itself, because the operator cannot read how full the volume is. Check that the operator can "+
		"connect to Pod {pod}, that the operator runs without --connect-to-databases=false, and that the image has the "+
		"program df.", "Let the operator connect, or remove storage.maxSize and observe the volume yourself.")
	messageSetMaxSize = Messages.Declare("",
		"Increase storage.size above {size}, or set storage.maxSize: the volume then grows by itself.", partOfMessage)
	messageAtMaxSize = Messages.Declare("",
		"The volume has reached storage.maxSize: increase storage.maxSize.", partOfMessage)
	messageWillGrow = Messages.Declare("",
		"The volume grows as soon as the operator can read how full it is and change the claim.", partOfMessage)
	messageHasGrown = Messages.Declare("",
		"The volume has just grown, and PostgreSQL has not measured it yet.", partOfMessage)
	messageGrowthFailed = Messages.Declare("",
		"The volume cannot grow: {error}. If the cause cannot be corrected, copy the data to another Database.",
		partOfMessage)
	messageOtherFileSystem = Messages.Declare("", "The volume does not grow by itself, because its file system has "+
		"another size than the volume: increase storage.size above {size}.", partOfMessage)
	messageCannotGrow = Messages.Declare("StorageCannotGrow",
		"The size of the volume stays {size}: {error}. Set storage.size to {size}, or copy the data to another Database.",
		"Set spec.storage.size to the size of the volume, or use a storage class that allows expansion.")
	messageOtherClass = Messages.Declare("StorageClassMismatch",
		"PersistentVolumeClaim {claim} of a previous Database has storage class {class}, not {wanted}. To use its data, "+
			"set deletionPolicy of this Database to Retain, delete this Database, and create it again with storage class "+
			"{class}. For an empty volume, create a Database with another name.",
		"Create the Database again with the storage class of the claim, or create a Database with another name.")
	messageVolumeLost = Messages.Declare("VolumeLost", "The volume of PersistentVolumeClaim {claim} is lost. See "+
		"`kubectl describe pvc -n {namespace} {claim}`.", "Restore the volume. If its data cannot be restored, delete the "+
		"claim: the operator creates an empty volume.")
	messageStreaming = Messages.Declare("Streaming", "The backup stores every transaction within seconds. The data can "+
		"be restored to any time since {from}.", "Nothing to do.")
	messageBackupStarting = Messages.Declare("BackupStarting", "No base backup is complete since the write-ahead log "+
		"is streamed without a gap. If this stays, see `kubectl logs -n {namespace} deploy/{name}`.", "Wait.")
	messageBackupInterrupted = Messages.Declare("BackupInterrupted", "The backup lacks the transactions after {time}. "+
		"See `kubectl describe -n {namespace} deploy/{name}` and the log of its Pod.",
		"Correct what prevents the Pod of the backup from running, or from connecting to PostgreSQL.")
	messageBackupFull = Messages.Declare("BackupVolumeFull", "The volume of PersistentVolumeClaim {claim} is full, so "+
		"the backup cannot continue. Increase backup.destination.claim.size above {size}, or remove base backups of a "+
		"previous server.",
		"Increase the size. The backup then continues by itself.")
	messageBackupFilling = Messages.Declare("BackupVolumeFilling", "The backup stores every transaction within seconds, "+
		"but at least {percent} % of the volume of PersistentVolumeClaim {claim} are used. Increase "+
		"backup.destination.claim.size above {size}, or reduce backup.keep.",
		"Do what the message says before the volume is full.")
	messageBaseBackupFailed = Messages.Declare("BaseBackupFailed", "The last base backup failed. It is tried again "+
		"after a minute, then less often, up to every hour. See `kubectl logs -n {namespace} deploy/{name}`.",
		"Correct what the log names.")
	messageServerReplaced = Messages.Declare("ServerReplaced", "PostgreSQL is not the server that was backed up before: "+
		"its volume is empty or has other data. To restore the backup, see docs/database.md, section The worst day. To "+
		"back up this server instead, run `kubectl annotate database -n {namespace} {name} --overwrite "+
		"windlass.dev/backup=$(date +%s)`.", "Follow the message. See [The worst day](database.md#the-worst-day).")
	messageTablespaces = Messages.Declare("TablespacesNotBackedUp", "There is no new base backup, because the server has "+
		"tablespaces, which are outside of its volume. Move the tables and indexes in them to the default tablespace with "+
		"ALTER TABLE and ALTER INDEX … SET TABLESPACE pg_default, and then run DROP TABLESPACE.",
		"Follow the message. The data in a tablespace is lost when the Pod is replaced.")
	messageBackupNotObserved = Messages.Declare("BackupNotObserved", "The operator cannot read the state of the backup. "+
		"Check that the operator can connect to Pod {pod}, and that it runs without --connect-to-databases=false.",
		"Let the operator connect.")
	messageBackupPodTemplate = Messages.Declare("InvalidPodTemplate", "{problem}. Until you correct "+
		"spec.backup.podTemplate, the Pod of the backup stays as it is.", "Correct spec.backup.podTemplate.")
	messageBackupSchedule = Messages.Declare("InvalidSchedule", "No base backup is taken by schedule, because "+
		"backup.schedule {schedule} is not valid: {error}. Correct the schedule.", "Correct backup.schedule.")
	messageRestoreRequest = Messages.Declare("InvalidRestore", "The annotation windlass.dev/restore has the value "+
		"{value}, but must be latest, or a time such as 2030-02-10T20:29:00Z.", "Correct the annotation.")
	messageRestoreWithdrawn = Messages.Declare("RestoreWithdrawn", "The restore of a backup is not complete, but "+
		"the Database does not request it any more. To continue the restore of its own backup, set the annotation "+
		"windlass.dev/restore again. To run PostgreSQL with what the volume has, run `kubectl delete statefulset -n "+
		"{namespace} {name}`.", "Follow the message.")
	messageBackupVolumeLost = Messages.Declare("BackupVolumeLost", "The volume of PersistentVolumeClaim {claim} is lost, "+
		"and the backups with it. Delete the claim and the Pod of the backup: the operator creates an empty volume, and the "+
		"backup begins again.",
		"Follow the message.")
	messageRestoring = Messages.Declare("Restoring", "The backup of Database {database} is being restored. See `kubectl "+
		"logs -n {namespace} {pod}`.", "Wait.")
	messageVolumeLostWithBackup = Messages.Declare("VolumeLost", "The volume of PersistentVolumeClaim {claim} is lost. "+
		"To restore the backup to a new volume, run `kubectl annotate database -n {namespace} {name} --overwrite "+
		"windlass.dev/restore=latest && kubectl delete pvc -n {namespace} {claim} --wait=false && kubectl delete "+
		"statefulset -n {namespace} {name}`.",
		"Follow the message. See [The worst day](database.md#the-worst-day).")
	messageVolumeDeleted = Messages.Declare("VolumeDeleted",
		"PersistentVolumeClaim {claim} is being deleted. When the Pod stops, the data is lost, and an empty volume "+
			"replaces the volume. Copy the data now, with pg_dump.",
		"Copy the data now.")
)

// StartMessages declares the messages of server.sh and restore.sh, which become the cause in the messages
// CrashLoopBackOff and SettingsRejected.
var StartMessages = messagesIn(serverScript + restoreScript)

// failure matches a message of server.sh.
var failure = regexp.MustCompile(`(?:fail |note_problem |why=)"([A-Z][^"]+)"`)

func messagesIn(script string) *controller.Catalog {
	catalog, known := controller.NewCatalog("Starting PostgreSQL"), sets.New[string]()
	for _, found := range failure.FindAllStringSubmatch(script, -1) {
		if known.Has(found[1]) {
			continue
		}
		known.Insert(found[1])
		catalog.Declare("", found[1], "Follow the message. For details, see `kubectl logs --previous`.")
	}
	return catalog
}
