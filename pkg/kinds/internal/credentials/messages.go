package credentials

import "windlass.dev/windlass/pkg/controller"

// Messages declares the errors of Parse: see docs/messages.md. They quote no value, because a value may be, or contain,
// a password.
var Messages = controller.NewCatalog("Connection Secrets")

const correctSecret = "Correct the key in the Secret."

var (
	messageControl = Messages.Declare("", "{key} contains a control character, such as a line break at its end, or "+
		"is not valid UTF-8",
		"Write the value again without a line break, for example with `printf` in place of `echo`.")
	messageNoHost  = Messages.Declare("", "neither uri nor host is set", "Set one of the two keys.")
	messagePort    = Messages.Declare("", "port must be a number from 1 to 65535", correctSecret)
	messageLong    = Messages.Declare("", "{key} has more than {limit} bytes", correctSecret)
	messageLargeCA = Messages.Declare("", "ca.crt has more than {limit} KiB: keep only the certificates of the "+
		"authority that signed the certificate of the server",
		"Remove other certificates from ca.crt.")
	messageURI = Messages.Declare("", "uri must have the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with "+
		"special characters encoded as %XX",
		"Correct uri, or set host, username and password in its place.")
	messageMixed = Messages.Declare("",
		"{key} and uri disagree: uri must have the whole connection except ca.crt, so that the operator does not send "+
			"the password of one connection to the server of another; check which of the two keys is right, and correct "+
			"the other key",
		"Check who wrote uri and the other keys. Write the whole connection into uri.")
	messageQuery = Messages.Declare("", "the query parameters of uri cannot be parsed; write them as "+
		"?NAME=VALUE&NAME=VALUE, with special characters encoded as %XX",
		"Correct uri.")
	messageParameter = Messages.Declare("",
		"uri has an unsupported query parameter: use only sslmode, application_name, channel_binding and "+
			"connect_timeout, and the key ca.crt instead of sslrootcert",
		"Remove the parameter from uri.")
	messageGrace = Messages.Declare("", "the end of the grace period at {time}", "Wait.")
)
