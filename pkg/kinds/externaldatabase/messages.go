package externaldatabase

import "windlass.dev/windlass/pkg/controller"

// Messages declares the messages of ExternalDatabase: see docs/messages.md. {error} is the error of the connection or
// of the server. No message contains a value of the connection Secret.
var Messages = controller.NewCatalog("ExternalDatabase")

// Reasons with several messages.
const (
	reasonMissing     = "DependencyMissing"
	reasonTaken       = "NameConflict"
	reasonCreating    = "Creating"
	reasonUnreachable = "ServerUnreachable"
	reasonUntrusted   = "ServerNotTrusted"
	reasonDenied      = "PermissionDenied"
	reasonBlocked     = "RotationBlocked"
	reasonKept        = "PasswordUnknown"
)

// keptAdvice is the beginning of the messages about a role that was handed over and cannot log in with the password in
// the Secret.
const keptAdvice = "{error}. The operator does not change this role. To use a new login instead of this role, run " +
	"`kubectl -n {namespace} annotate externaldatabase {name} {annotation}={value} --overwrite`; role {role} can then " +
	"no longer log in after the grace period. To keep using this role, ask the administrator of the server "

var (
	messageAvailable = Messages.Declare("Available", "The owner can connect to the database with the credentials in the "+
		"Secret.",
		"Nothing to do.")
	messageMissing = Messages.Declare(reasonMissing, "Waiting for Secret {secret}, which connectionSecretRef names, "+
		"to be created.",
		"Create the Secret, or correct spec.connectionSecretRef.")
	messageDatabaseNotReady = Messages.Declare("DatabaseNotReady",
		"Waiting for Database {database}, whose Secret connectionSecretRef names, to become Ready. Then the operator "+
			"creates the role and the database.",
		"Wait. If the Database does not become Ready, read its conditions.")
	messageMissingAtDeletion = Messages.Declare(reasonMissing,
		"Role {role} and database {database} cannot be deleted, because Secret {secret}, which connectionSecretRef "+
			"names, was not found. Create the Secret again, or set deletionPolicy to Retain to keep the role and the database.",
		"Create the Secret again, or set spec.deletionPolicy to Retain.")
	messageInvalidSecret = Messages.Declare("InvalidConnectionSecret",
		"Connection Secret {secret} is invalid: {error}.", "Correct the key that the message names.")
	messageInvalidPassword = Messages.Declare("InvalidPassword",
		"The server keeps its current password, because the password in Secret {secret} contains a character that is not "+
			"printable ASCII, such as a line break. Change the password, or delete the Secret to generate a new password.",
		"Change the password in the Secret, or delete the Secret.")
	messagePasswordChanged = Messages.Declare("PasswordChanged", "The password in Secret {secret} has changed. The "+
		"operator is about to set it on the server.", "Wait.")
	messageCreating = Messages.Declare(reasonCreating, "The operator is about to create role {role} and "+
		"database {database}.", "Wait.")
	messageRecreating = Messages.Declare(reasonCreating, "The operator is about to create a new, empty database "+
		"{database}, as annotation {annotation} requests.", "Wait.")
	messageGone = Messages.Declare("DatabaseGone",
		"Database {database} ({id}) was not found on the server in Secret {secret}. Restore the database under its name. "+
			"To create a new, empty database instead, set the annotation {annotation}={id} on this ExternalDatabase.",
		"Restore the database. Set the annotation only if its data is no longer needed.")
)

// Messages about a server that does not respond or rejects a request.
var (
	messageSilent = Messages.Declare(reasonUnreachable,
		"The connection to the server in {secret} failed: {error}. Check host, port and sslmode in the Secret, and "+
			"whether the operator can reach the server. The operator retries at least every {time}.",
		"Check host, port and sslmode in the Secret, and the network.")
	messageAway = Messages.Declare(reasonUnreachable, "The server in {secret} cannot process requests of the "+
		"operator now: {error}. The operator retries at least every {time}.",
		"Wait, or look at the server.")
	messageUntrusted = Messages.Declare(reasonUntrusted,
		"{error}. In {secret}, set ca.crt to the certificate of the authority that signed the certificate of the server, "+
			"or set sslmode to a mode that the server supports.", "Set ca.crt or sslmode in the Secret.")
	messageUnverified = Messages.Declare(reasonUntrusted,
		"{error}, so the operator logs in only with SCRAM-SHA-256. In {secret}, set sslmode to verify-full, and set "+
			"ca.crt unless a public authority signed the certificate of the server. Or set the method in pg_hba.conf to "+
			"scram-sha-256, and set the password on the server again with password_encryption=scram-sha-256.",
		"Let the operator verify the server, or let the server ask for SCRAM-SHA-256.")
	messageNotAsked = Messages.Declare("ServerNotAsked",
		"The plan does not log in to the server in Secret {connection}, because the password in Secret {secret} is stored "+
			"for another host, port, sslmode or ca.crt. Check who wrote the connection, and plan without --connect.",
		"Only `kubectl windlass plan` says this. Check who wrote the connection, and plan without --connect.")
	messageForbidden = Messages.Declare("HostNotAllowed", "{error}. Ask the administrator of the operator to allow the "+
		"host, or change {secret}.", "Change the host, or ask for the flag --external-database-allowed-hosts.")
	messageLoginRejected = Messages.Declare("LoginRejected", "{error}. Check username and password in {secret}, and "+
		"pg_hba.conf on the server.", "Correct username or password in the Secret, or pg_hba.conf.")
	messageDenied = Messages.Declare(reasonDenied, "{error}. Set CREATEROLE and CREATEDB on the role in {secret}. To "+
		"end sessions of other roles, it needs membership in pg_signal_backend. To manage a role that another role "+
		"created, it needs ADMIN OPTION on that role (PostgreSQL 16 or later).",
		"Give the role of the operator the privilege that is missing.")
	messageOwnerAttributes = Messages.Declare(reasonDenied, "{error}. Set spec.ownerAttributes of Database {database}, "+
		"whose Secret connectionSecretRef names, to [CreateDB, CreateRole].",
		"Set spec.ownerAttributes of the Database.")
	messageUninherited = Messages.Declare(reasonDenied, "{error}. Set INHERIT on the role in {secret}.",
		"Run ALTER ROLE … INHERIT on the server.")
	messageUnlisted = Messages.Declare(reasonDenied, "{error}. Ask a superuser of the server to create the extension, "+
		"or remove the extension from the spec.", "Create the extension as a superuser, or remove it from spec.extensions.")
	messageTaken = Messages.Declare(reasonTaken, "{error}. Create an ExternalDatabase with {other names} instead.",
		"Choose other names.")
	messageHandOver = Messages.Declare(reasonTaken,
		"{error}. Create an ExternalDatabase with {other names} instead. To hand over the existing role or database with "+
			"its password and privileges instead, ask the administrator of the server to run: {statements}",
		"Choose other names, or run the statements.")
	messageProtected = Messages.Declare("RoleProtected", "{error}. Create an ExternalDatabase with {other names} instead.",
		"Choose another name for the owner.")
	messageProtectedOwn = Messages.Declare("RoleProtected", "{error}. Ask a superuser of the server to run: {statement}",
		"Run the statement. If the role needs REPLICATION or BYPASSRLS, give it back after the condition has ended. "+
			"If it needs another attribute, choose another name for the owner.")
	messageKept = Messages.Declare(reasonKept,
		keptAdvice+"for the password of the role or to set a password, and put the password into Secret {secret}, key "+
			"password.",
		"Put the password of the role into the Secret, or rotate the credentials.")
	messageKeptOut = Messages.Declare(reasonKept,
		keptAdvice+"to set a new password and to run: {statement}; then put the password into Secret {secret}, key password.",
		"Rotate the credentials, or run the statement and put the new password of the role into the Secret.")
	messageReplaced = Messages.Declare("ServerReplaced", "{error}. Check whether {secret} names the right server. For a "+
		"new database, set deletionPolicy to Retain, delete this ExternalDatabase, and create it again.",
		"Correct the Secret, or create the ExternalDatabase again.")
	messageRejected = Messages.Declare("Rejected", "{error}. Change the spec, {secret}, or the configuration of the "+
		"server.", "Correct what the error names.")
	messageServerError = Messages.Declare("ServerError", "using the server in {secret}: {error}",
		"The operator retries. If the error stays, look at the log of the server.")
)

// Messages about a rotation. They are in Events and in status.credentials.waitingFor.
var (
	messageRotated = Messages.Declare("CredentialsRotated",
		"Secret {secret} has login {login} and a new password. The previous login {previous} works until the grace period "+
			"has ended and no known client uses this login.",
		"Nothing to do for Apps. Restart other clients that read the Secret only when they start.")
	messageRetired = Messages.Declare("PreviousLoginRetired", "The previous login {previous} can no longer log in. The "+
		"operator has closed its connections.",
		"Nothing to do. A client that fails now must read the Secret again.")
	messageRotationBlocked = Messages.Declare(reasonBlocked, "The rotation of the credentials failed: {error}. The "+
		"login in Secret {secret} still works.",
		"Correct the cause. The operator retries.")
	messageRotationTaken = Messages.Declare(reasonBlocked,
		"The rotation of the credentials needs a role whose name is in use: {error}. If nobody else needs this role, hand "+
			"the role over. The role then gets another password, loses its attributes, and becomes a member of the owner. To "+
			"hand the role over, ask the administrator of the server to run: {statement}",
		"Run the statement if nobody else needs the role. Otherwise, create an ExternalDatabase with another spec.owner.")
	messageRotationUnproven = Messages.Declare(reasonUnreachable,
		"Secret {secret} has login {login} and a new password, which the server accepts, but the login cannot use the "+
			"database: {error}. The operator retries.",
		"Look at the settings and the connections of the database. A user of the previous login may have changed them.")
	messageRetirementBlocked = Messages.Declare(reasonBlocked,
		"The previous login {previous} cannot be retired: {error}. The next rotation begins after this login is retired.",
		"Correct the cause. The operator retries.")
)
