package database

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
)

// Keys of the settings Secret, which the Pod mounts: see server.sh. With TLS, the Secret also has tls.crt and tls.key.
const (
	keyRevision     = "revision"
	keyDatabase     = "database"
	keyOwner        = "owner"
	keyAttributes   = "attributes"
	keyParameters   = "parameters"
	keyUpdatePolicy = "updatePolicy"
	keyReplication  = "backup.password"
	// keyCurrent is the login in the connection Secret. Only the operator reads it.
	keyCurrent = "currentLogin"
)

// changedAnnotation on the settings Secret is the time of the last change of the settings, in the format of RFC 3339.
const changedAnnotation = "windlass.dev/settings-changed-at"

// settingsSuffix follows the name of the Database in the name of its settings Secret.
const settingsSuffix = "-settings"

// settingsName returns the name of the settings Secret.
func settingsName(db *v1alpha1.Database) string { return db.Name + settingsSuffix }

// declareSettings declares the settings Secret.
func (r *reconciler) declareSettings(c kinds.Cluster) children.Child[*scope] {
	r.settings = &children.Declaration[*scope, *corev1.Secret]{
		Resource: c.Secrets(),
		Suffix:   settingsSuffix,
		Needs:    []string{nameRotation},
		Desired: func(p *scope) *corev1.Secret {
			return desiredSettings(p.db, p.encryption, p.logins, p.backup.secret, r.clock.Now())
		},
		Keep: func(p *scope, desired, live *corev1.Secret) {
			p.keepReplication(desired, live)
			keepRevision(desired, live)
		},
		Applied: r.settingsApplied,
	}
	return r.settings
}

// desiredSettings returns the settings Secret, which the script in the Pod applies to the server. An existing Secret
// with the same settings keeps its revision and its time: see keepRevision.
// backup is the Secret of the backup, or nil without a backup.
func desiredSettings(
	db *v1alpha1.Database, e encryption, of logins, backup *corev1.Secret, now time.Time,
) *corev1.Secret {
	meta := metaOf(db)
	meta.Annotations = map[string]string{changedAnnotation: now.UTC().Format(time.RFC3339)}
	s := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		keyRevision:     []byte(newRevision()),
		keyDatabase:     []byte(db.Spec.DatabaseName),
		keyAttributes:   []byte(ownerAttributes(db)),
		keyCurrent:      []byte(of.current.name),
		keyParameters:   []byte(parameters(db)),
		keyUpdatePolicy: []byte(updatePolicyOf(db)),
	}}
	of.setIn(s, db.Spec.Owner)
	if len(e.certificate) > 0 {
		s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey] = e.certificate, e.key
	}
	if backup != nil {
		s.Data[keyReplication] = backup.Data[keyBackupPassword]
	}
	return s
}

// keepReplication keeps the password of the backup in the settings if the Secret of the backup was not applied: without
// the password, the server would drop the slot of the backup.
func (p *scope) keepReplication(want, live *corev1.Secret) {
	if password := live.Data[keyReplication]; hasBackup(p) && p.backup.secret == nil && len(password) > 0 {
		want.Data[keyReplication] = password
	}
}

// parameters returns a line NAME=VALUE for each parameter. The schema allows no control character in a value.
func parameters(db *v1alpha1.Database) string {
	lines := make([]string, 0, len(db.Spec.Parameters))
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Parameters)) {
		lines = append(lines, name+"="+string(db.Spec.Parameters[name]))
	}
	return strings.Join(lines, "\n")
}

// updatePolicyOf returns spec.updatePolicy with its default.
func updatePolicyOf(db *v1alpha1.Database) v1alpha1.UpdatePolicy {
	if db.Spec.UpdatePolicy == v1alpha1.UpdateManual {
		return v1alpha1.UpdateManual
	}
	return v1alpha1.UpdateAutomatic
}

// newRevision returns a random identifier, which reveals nothing about the settings.
func newRevision() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // rand.Read never returns an error, as its documentation says
	return hex.EncodeToString(random)
}

// keepRevision keeps the revision of a settings Secret whose settings do not change, and the time of the last change
// that the operator has recorded.
func keepRevision(want, live *corev1.Secret) {
	revision := live.Data[keyRevision]
	if len(revision) == 0 {
		return
	}
	settings := maps.Clone(want.Data)
	settings[keyRevision] = revision
	if !maps.EqualFunc(settings, live.Data, slices.Equal[[]byte]) {
		return
	}
	want.Data = settings
	if changed := children.Recorded(live).GetAnnotations()[changedAnnotation]; changed != "" {
		want.Annotations[changedAnnotation] = changed
	}
}

// revisionOf returns the revision of the settings.
func revisionOf(settings *corev1.Secret) string { return string(settings.Data[keyRevision]) }

// maxSkew is how far in the future the time of the last change may be, because of the clock of another replica.
const maxSkew = time.Minute

// changedAt returns the time of the last change of the settings. If the annotation is not valid, or is in the future
// because a user has set it, changedAt returns the creation time of the Secret.
func changedAt(settings *corev1.Secret, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, settings.Annotations[changedAnnotation])
	if err != nil || at.After(now.Add(maxSkew)) {
		return settings.CreationTimestamp.Time
	}
	return at
}
