package credentials

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetRecord sets the annotations of a connection Secret about rotations. It removes an annotation for which the Record
// has no value.
func SetRecord(secret *corev1.Secret, r Record) {
	set := func(name, value string) {
		if value == "" {
			delete(secret.Annotations, name)
			return
		}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, name, value)
	}
	set(RotateAnnotation, r.Request)
	rotated := ""
	if !r.Rotated.IsZero() {
		rotated = r.Rotated.UTC().Format(time.RFC3339)
	}
	set(RotatedAtAnnotation, rotated)
}

// Keep returns a function that copies the login, the password, the record of the last rotation, and the keys that other
// clients have added, from an existing Secret to its desired state. Users may change these values in the Secret. If
// live names neither the owner nor an alternate login, want keeps its login. An implausible time of the last rotation
// becomes now: see RecordOf. A rotation does not use this function.
func Keep(owner string, now time.Time) func(want, live *corev1.Secret) {
	return func(want, live *corev1.Secret) {
		keepOthers(want, live)
		SetRecord(want, RecordOf(live, now))
		want.Data[KeyUsername] = []byte(LoginIn(live, owner, string(want.Data[KeyUsername])))
		setPassword(want, cmp.Or(string(live.Data[KeyPassword]), string(want.Data[KeyPassword])))
	}
}

// keepOthers copies the keys that other clients have added to a connection Secret from live to want.
func keepOthers(want, live *corev1.Secret) {
	for key, value := range live.Data {
		if !slices.Contains(keys, key) {
			want.Data[key] = value
		}
	}
}
