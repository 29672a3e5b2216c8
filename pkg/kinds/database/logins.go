package database

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// loginState says whether a role can log in. It is a value of the keys with stateSuffix.
type loginState string

const (
	// loginPassword means that the role can log in with a password in the settings.
	loginPassword loginState = "Password"
	// loginKeep means that the script does not change the role, so that the role can log in with its current password.
	loginKeep loginState = "Keep"
	// loginNone means that the role cannot log in, and has no connections.
	loginNone loginState = "None"
)

// login is a role that is, was or will be in the connection Secret: the owner or one of its alternates.
type login struct {
	name     string
	state    loginState
	password string // set if state is loginPassword
}

// logins are the logins of the owner. current is in the connection Secret. The state of other is
//   - loginPassword while the server is about to accept the next password,
//   - loginKeep while clients may use it after a rotation,
//   - loginNone otherwise.
//
// No other role of the owner can log in.
type logins struct{ current, other login }

// Prefixes of the keys of a role in the settings, and suffixes of these keys. The name of the role has no suffix.
const (
	stateSuffix    = ".login"
	passwordSuffix = ".password"
)

// roles are the prefixes of the owner and of its alternates.
var roles = []string{keyOwner, "alternate1", "alternate2"}

// namesOf returns the names of the roles.
func namesOf(owner string) []string { return append([]string{owner}, credentials.Alternates(owner)...) }

// setIn sets the keys of all roles of the owner in the settings.
func (of logins) setIn(settings *corev1.Secret, owner string) {
	for i, name := range namesOf(owner) {
		settings.Data[roles[i]], settings.Data[roles[i]+stateSuffix] = []byte(name), []byte(loginNone)
		for _, l := range []login{of.current, of.other} {
			if l.name != name {
				continue
			}
			settings.Data[roles[i]+stateSuffix] = []byte(l.state)
			if l.state == loginPassword {
				settings.Data[roles[i]+passwordSuffix] = []byte(l.password)
			}
		}
	}
}

// loginOf returns the login of a role from the settings. prefix is the prefix of the keys of the role. A state that the
// operator never writes means loginNone.
func loginOf(settings *corev1.Secret, prefix, name string) login {
	switch state := loginState(settings.Data[prefix+stateSuffix]); state {
	case loginPassword, loginKeep:
		return login{name, state, string(settings.Data[prefix+passwordSuffix])}
	default:
		return login{name: name, state: loginNone}
	}
}

// loginsIn returns the logins in the connection Secret and in the stored settings, which may be nil. moved is true if
// the connection Secret has another login than the settings, because a rotation has just stored it. Without settings
// for this owner, loginsIn assumes that clients still use the previous login of a rotation, if there was a rotation.
func loginsIn(owner string, connection, settings *corev1.Secret) (of logins, moved bool) {
	name := credentials.LoginIn(connection, owner, owner)
	of.current = login{name, loginPassword, string(connection.Data[credentials.KeyPassword])}
	if settings == nil || string(settings.Data[keyOwner]) != owner {
		of.other = login{name: credentials.Next(owner, name), state: loginNone}
		if connection.Annotations[credentials.RotatedAtAnnotation] != "" {
			of.other.state = loginKeep
		}
		return of, false
	}
	if before := string(settings.Data[keyCurrent]); before != name && slices.Contains(namesOf(owner), before) {
		of.other = login{name: before, state: loginKeep}
		return of, true
	}
	for i, role := range namesOf(owner) {
		if l := loginOf(settings, roles[i], role); role != name && l.state != loginNone {
			of.other = l
			return of, false
		}
	}
	of.other = login{name: credentials.Next(owner, name), state: loginNone}
	return of, false
}
