package database

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

func TestThePassword(t *testing.T) {
	everything := func(db *v1alpha1.Database) {
		db.Spec.Owner, db.Spec.DatabaseName, db.Spec.Image = "clerk", "shop", "postgres:17.6"
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
		db.Labels = map[string]string{"team": "storefront"}
		grown("2Gi")(db)
	}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.Database)
		others  func(*corev1.Secret)
		writes  []string // the first ones
		want    func(before string) string
		another bool // whether the Pod is replaced
	}{
		"stays when all else changes":              {change: everything, writes: []string{patchSecret, "patch services default/shop", patchClaim, patchSet}},
		"stays when its label is taken away":       {others: func(s *corev1.Secret) { delete(s.Labels, controller.ManagedByLabel) }, writes: []string{"create secrets default/shop-credentials", patchSecret}},
		"stays when its owner is taken away":       {others: func(s *corev1.Secret) { s.OwnerReferences = nil }, writes: []string{patchSecret}},
		"stays when what is made of it is changed": {others: func(s *corev1.Secret) { s.Data[credentials.KeyURI] = []byte("theirs") }, writes: []string{patchSecret}},
		"stays when the others are taken out": {others: func(s *corev1.Secret) {
			s.Data = map[string][]byte{credentials.KeyPassword: s.Data[credentials.KeyPassword]}
		}, writes: []string{patchSecret}},
		"stays when others put in more": {others: func(s *corev1.Secret) { s.Data["more"] = []byte("theirs") }, writes: []string{patchSecret}},
		"is what somebody has set, and replaces the Pod": {
			others: func(s *corev1.Secret) { s.Data[credentials.KeyPassword] = []byte("theirs") }, writes: []string{patchSecret, patchSet},
			want: func(string) string { return "theirs" }, another: true,
		},
		"is made anew when it is taken out": {
			others: func(s *corev1.Secret) { delete(s.Data, credentials.KeyPassword) }, writes: []string{patchSecret, patchSet}, want: nil, another: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			was, digest := w.secret(), digestOf(w)
			if c.change != nil {
				w.change(c.change)
			}
			if c.others != nil {
				s := w.secret()
				c.others(s)
				w.update("secrets", s)
			}
			before := len(w.journal.Writes())
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes", c.writes, without(w.journal.Writes()[before:], updateStatus))
			got := string(w.secret().Data[credentials.KeyPassword])
			switch {
			case !c.another:
				controllertest.Equal(t, "password", string(was.Data[credentials.KeyPassword]), got)
			case c.want != nil:
				controllertest.Equal(t, "password", c.want(string(was.Data[credentials.KeyPassword])), got)
			case len(got) != 32 || got == string(was.Data[credentials.KeyPassword]):
				t.Errorf("the password is %q", got)
			}
			controllertest.Equal(t, "secret", desiredSecret(w.db(), got).Data, w.secret().Data)
			controllertest.Equal(t, "another Pod", c.another, digestOf(w) != digest)
		})
	}
}

func digestOf(w *world) string { return w.statefulSet().Spec.Template.Annotations[digestAnnotation] }

func without(lines []string, line string) (rest []string) {
	for _, l := range lines {
		if l != line {
			rest = append(rest, l)
		}
	}
	return rest
}

func TestADeletedSecretYieldsAnotherPassword(t *testing.T) {
	w := up(t)
	was, digest := w.secret(), digestOf(w)
	if err := w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "default", was.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if is := string(w.secret().Data[credentials.KeyPassword]); is == string(was.Data[credentials.KeyPassword]) || len(is) != 32 || digestOf(w) == digest {
		t.Errorf("the password is %q, and the Pod another: %t", is, digestOf(w) != digest)
	}
}

func TestAPasswordThatCannotReachTheServerIsRefused(t *testing.T) {
	for name, password := range map[string]string{"with a line break": "secret\n", "with a NUL": "a\x00b", "with a tab": "a\tb"} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			s, digest := w.secret(), digestOf(w)
			s.Data[credentials.KeyPassword] = []byte(password)
			w.update("secrets", s)
			_, err := w.pass()
			if err == nil || strings.Contains(err.Error(), "a") && strings.Contains(err.Error(), password) {
				t.Errorf("the error is %v", err)
			}
			controllertest.Equal(t, "reason", "InvalidPassword", reason(w.db()))
			controllertest.Equal(t, "digest", digest, digestOf(w))
			controllertest.Equal(t, "password", password, string(w.secret().Data[credentials.KeyPassword]))
		})
	}
}

func TestADigestTellsNothingWithoutTheSecret(t *testing.T) {
	of := func(uid, password string) string {
		return passwordDigest(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Data: map[string][]byte{credentials.KeyPassword: []byte(password)}})
	}
	controllertest.Equal(t, "the same", of("a", "secret"), of("a", "secret"))
	if of("a", "secret") == of("a", "other") || of("a", "secret") == of("b", "secret") {
		t.Error("digests of what differs are the same")
	}
}
