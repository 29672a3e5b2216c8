package database

import (
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/controllertest"
)

func TestAPasswordIsOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		password := newPassword()
		if len(password) != 32 || strings.Trim(password, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || seen[password] {
			t.Fatalf("%q is not a new password of 32 characters", password)
		}
		seen[password] = true
	}
}

// FuzzConnection reads back what is written into the Secret.
func FuzzConnection(f *testing.F) {
	for _, text := range []string{"app", `a"b'c`, `a:b\c`, "a/b?c#d@e", "ä %41", "$(HOME)", "::", `\`} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, owner, database, password string) {
		s := desiredSecret(example(func(db *v1alpha1.Database) { db.Spec.Owner, db.Spec.DatabaseName = owner, database }), password)
		read, err := url.Parse(string(s.Data[keyURI]))
		if err != nil {
			t.Fatalf("the uri is none: %v", err)
		}
		got, _ := read.User.Password()
		controllertest.Equal(t, "of the uri", []string{owner, password, "shop.default.svc:5432", "/" + database}, []string{read.User.Username(), got, read.Host, read.Path})
		controllertest.Equal(t, "of pgpass", []string{"shop.default.svc", "5432", database, owner, password}, pgpassFields(string(s.Data[keyPgpass])))
	})
}

// pgpassFields reads a line as libpq does.
func pgpassFields(line string) []string {
	fields, escaped := []string{""}, false
	for _, c := range []byte(strings.TrimSuffix(line, "\n")) {
		last := &fields[len(fields)-1]
		switch {
		case escaped:
			*last, escaped = *last+string([]byte{c}), false
		case c == '\\':
			escaped = true
		case c == ':':
			fields = append(fields, "")
		default:
			*last += string([]byte{c})
		}
	}
	return fields
}

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
		another bool // Pod
	}{
		"stays when all else changes":              {change: everything, writes: []string{patchSecret, "patch services default/shop", patchClaim, patchSet}},
		"stays when its label is taken away":       {others: func(s *corev1.Secret) { delete(s.Labels, controller.ManagedByLabel) }, writes: []string{"create secrets default/shop-credentials", patchSecret}},
		"stays when its owner is taken away":       {others: func(s *corev1.Secret) { s.OwnerReferences = nil }, writes: []string{patchSecret}},
		"stays when what is made of it is changed": {others: func(s *corev1.Secret) { s.Data[keyURI] = []byte("theirs") }, writes: []string{patchSecret}},
		"stays when the others are taken out":      {others: func(s *corev1.Secret) { s.Data = map[string][]byte{keyPassword: s.Data[keyPassword]} }, writes: []string{patchSecret}},
		"stays when others put in more":            {others: func(s *corev1.Secret) { s.Data["more"] = []byte("theirs") }, writes: []string{patchSecret}},
		"is what somebody has set, and replaces the Pod": {
			others: func(s *corev1.Secret) { s.Data[keyPassword] = []byte("theirs") }, writes: []string{patchSecret, patchSet},
			want: func(string) string { return "theirs" }, another: true,
		},
		"is made anew when it is taken out": {
			others: func(s *corev1.Secret) { delete(s.Data, keyPassword) }, writes: []string{patchSecret, patchSet}, want: nil, another: true,
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
			got := string(w.secret().Data[keyPassword])
			switch {
			case !c.another:
				controllertest.Equal(t, "password", string(was.Data[keyPassword]), got)
			case c.want != nil:
				controllertest.Equal(t, "password", c.want(string(was.Data[keyPassword])), got)
			case len(got) != 32 || got == string(was.Data[keyPassword]):
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
	if is := string(w.secret().Data[keyPassword]); is == string(was.Data[keyPassword]) || len(is) != 32 || digestOf(w) == digest {
		t.Errorf("the password is %q, and the Pod another: %t", is, digestOf(w) != digest)
	}
}

func TestAPasswordThatCannotReachTheServerIsRefused(t *testing.T) {
	for name, password := range map[string]string{"with a line break": "secret\n", "with a NUL": "a\x00b", "with a tab": "a\tb"} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			s, digest := w.secret(), digestOf(w)
			s.Data[keyPassword] = []byte(password)
			w.update("secrets", s)
			_, err := w.pass()
			if err == nil || strings.Contains(err.Error(), "a") && strings.Contains(err.Error(), password) {
				t.Errorf("the error is %v", err)
			}
			controllertest.Equal(t, "reason", "InvalidPassword", reason(w.db()))
			controllertest.Equal(t, "digest", digest, digestOf(w))
			controllertest.Equal(t, "password", password, string(w.secret().Data[keyPassword]))
		})
	}
}

func TestADigestTellsNothingWithoutTheSecret(t *testing.T) {
	of := func(uid, password string) string {
		return passwordDigest(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Data: map[string][]byte{keyPassword: []byte(password)}})
	}
	controllertest.Equal(t, "the same", of("a", "secret"), of("a", "secret"))
	if of("a", "secret") == of("a", "other") || of("a", "secret") == of("b", "secret") {
		t.Error("digests of what differs are the same")
	}
}
