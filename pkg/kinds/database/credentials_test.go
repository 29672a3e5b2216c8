package database

import (
	"cmp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

func TestPassword(t *testing.T) {
	everything := func(db *v1alpha1.Database) {
		db.Spec.Owner, db.Spec.DatabaseName, db.Spec.Image = "clerk", "shop", "postgres:17.6"
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
		withSize("2Gi")(db)
	}
	for name, c := range map[string]struct {
		change       func(*v1alpha1.Database)
		changeSecret func(*corev1.Secret)
		writes       []string
		password     string // the password that a user has set, if any
		generated    bool   // whether the password is a new one
	}{
		"the password stays if all fields of the spec change": {
			change: everything, writes: []string{patchSecret, patchSettings, patchClaim, patchStatefulSet, updateStatus},
		},
		"the password stays if the label is removed": {
			changeSecret: func(s *corev1.Secret) { delete(s.Labels, controller.ManagedByLabel) }, writes: []string{
				createSecret, patchSecret,
			},
		},
		"the password stays if the uri is changed": {
			changeSecret: func(s *corev1.Secret) { s.Data[credentials.KeyURI] = []byte("theirs") }, writes: []string{
				patchSecret,
			},
		},
		"a password that somebody sets goes to the settings": {
			changeSecret: func(s *corev1.Secret) { s.Data[credentials.KeyPassword] = []byte("theirs") },
			writes:       []string{patchSecret, patchSettings}, password: "theirs",
		},
		"a removed password is generated again, and goes to the settings": {
			changeSecret: func(s *corev1.Secret) { delete(s.Data, credentials.KeyPassword) },
			writes:       []string{patchSecret, patchSettings}, generated: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			before := string(f.secret().Data[credentials.KeyPassword])
			if c.change != nil {
				f.Change(c.change)
			}
			if c.changeSecret != nil {
				f.changeSecret(c.changeSecret)
			}
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			after := string(f.secret().Data[credentials.KeyPassword])
			if c.generated {
				checkGenerated(t, before, after)
			} else {
				controllertest.Equal(t, "password", cmp.Or(c.password, before), after)
			}
			controllertest.Equal(t, "data", desiredSecret(f.Object(), f.encryption(), login{
				name: f.Object().Spec.Owner, password: after,
			}, credentials.Record{}).Data, f.secret().Data)
			controllertest.Equal(t, "password in the settings", after, string(f.settings().Data[keyOwner+passwordSuffix]))
		})
	}
}

// checkGenerated fails the test unless after is a generated password that differs from before.
func checkGenerated(t *testing.T, before, after string) {
	t.Helper()
	if len(after) != 32 || after == before {
		t.Errorf("the password was %q and is %q, which is no new password of 32 characters", before, after)
	}
}

func TestReconcileGeneratesPasswordForDeletedSecret(t *testing.T) {
	f := readyFixture(t)
	before, template := f.secret(), f.statefulSet().Spec.Template
	f.Remove(before)
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{createSecret, patchSettings}, r.Writes)
	checkGenerated(t, string(before.Data[credentials.KeyPassword]), string(f.secret().Data[credentials.KeyPassword]))
	controllertest.Equal(t, "template", template, f.statefulSet().Spec.Template)
}

func TestReconcileRejectsPasswordWithControlCharacter(t *testing.T) {
	for name, password := range map[string]string{
		"a password with a line break": "secret\n", "a password with a NUL": "a\x00b", "a password with a tab": "a\tb",
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			revision := f.revision()
			f.changeSecret(func(s *corev1.Secret) { s.Data[credentials.KeyPassword] = []byte(password) })
			r := f.Reconcile()
			controllertest.ErrorContains(t, "control character", r.Err)
			if r.Err != nil && strings.Contains(r.Err.Error(), password) {
				t.Errorf("the error contains the password: %v", r.Err)
			}
			controllertest.Equal(t, "writes", []string{patchSecret, updateStatus}, r.Writes)
			controllertest.Equal(t, "reason", "InvalidPassword", f.reason())
			controllertest.Equal(t, "revision", revision, f.revision())
			controllertest.Equal(t, "password", password, string(f.secret().Data[credentials.KeyPassword]))
		})
	}
}
