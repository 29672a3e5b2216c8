package database

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// desiredSecret returns the connection Secret. An existing Secret keeps its own password: see
// credentials.KeepPassword.
func desiredSecret(db *v1alpha1.Database, password string) *corev1.Secret {
	meta := metaOf(db)
	meta.Name = credentials.Name(db.Name)
	return credentials.Secret(meta, credentials.Connection{
		Username: db.Spec.Owner, Host: db.Name + "." + db.Namespace + ".svc", Port: strconv.Itoa(port), Database: db.Spec.DatabaseName,
		TLSMode: "disable", // the server has no certificate
	}, password)
}

// checkPassword returns a Terminal error for a password with a control character. The script in the Pod does not
// set such a password on the server.
func checkPassword(s *corev1.Secret) error {
	if !slices.ContainsFunc(s.Data[credentials.KeyPassword], func(c byte) bool { return c < ' ' || c == 0x7f }) {
		return nil
	}
	return controller.Terminal(messageInvalidPassword.Error(s.Name))
}

// passwordDigest returns a digest of the password, keyed with the UID of the Secret. Only users who may
// read the Secret know its UID, so that others cannot guess the password from the annotations of a Pod.
func passwordDigest(s *corev1.Secret) string {
	hash := hmac.New(sha256.New, []byte(s.UID))
	hash.Write(s.Data[credentials.KeyPassword])
	return hex.EncodeToString(hash.Sum(nil))[:digestLength]
}

const digestLength = 16
