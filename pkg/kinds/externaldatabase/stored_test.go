package externaldatabase

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// authority returns a certificate in PEM form.
func authority(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// TestPlanSendsStoredPasswordOnlyToStoredServer reconciles with Secrets that a plan has changed or created.
func TestPlanSendsStoredPasswordOnlyToStoredServer(t *testing.T) {
	owners := createdSecret(t)
	set := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	uri := func(text string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data = map[string][]byte{"uri": []byte(text)} }
	}
	const here, there = "postgresql://admin:secret@db.example.com", "postgresql://admin:secret@else.example.com"
	const another = "postgresql://admin:of-the-plan@else.example.com"
	unchanged := func(*corev1.Secret) {}
	for name, c := range map[string]struct {
		planned, stored func(*corev1.Secret) // changes of the connection Secret; without stored, the plan creates it
		newOwner        bool                 // the Secret of the owner is new
		blames          string               // the Secret whose password the plan must not send
	}{
		"the stored connection":      {planned: unchanged, stored: unchanged},
		"another username":           {planned: set("username", "else"), stored: unchanged},
		"another password":           {planned: set("password", "else"), stored: unchanged},
		"another host":               {planned: set("host", "else.example.com"), stored: unchanged, blames: "server"},
		"another port":               {planned: set("port", "1"), stored: unchanged, blames: "server"},
		"another sslmode":            {planned: set("sslmode", "require"), stored: unchanged, blames: "server"},
		"another ca":                 {planned: set("ca.crt", authority(t)), stored: unchanged, blames: "server"},
		"another host in uri":        {planned: uri(there), stored: uri(here), blames: "server"},
		"a connection of two":        {planned: unchanged, stored: set("uri", another), blames: "server"},
		"another connection":         {planned: uri(another), stored: unchanged, blames: "shop-credentials"},
		"a new connection":           {planned: uri(another), blames: "shop-credentials"},
		"a new one to the server":    {planned: unchanged},
		"another, for a new owner":   {planned: uri(another), stored: unchanged, newOwner: true},
		"a new one, for a new owner": {planned: uri(another), newOwner: true},
	} {
		for phase, change := range map[string]func(*v1alpha1.ExternalDatabase){"": known, ", deleted": deleted} {
			t.Run(name+phase, func(t *testing.T) {
				f := newFixture(t, current(), example(known, change), connectionSecret(c.planned), owners)
				var stored []runtime.Object
				if c.stored != nil {
					stored = append(stored, connectionSecret(c.stored))
				}
				if !c.newOwner {
					stored = append(stored, owners)
				}
				f.Pipeline.Reconciler.(*reconciler).stored = fake.NewSimpleClientset(stored...).CoreV1()
				r := f.Reconcile()
				if c.blames == "" || phase != "" && c.blames != "server" { // the deletion logs in only as the administrator
					controllertest.ErrorContains(t, "", r.Err)
					return
				}
				controllertest.ErrorContains(t, "the password in Secret "+c.blames+" is stored for another host", r.Err)
				controllertest.Equal(t, "reason", "ServerNotAsked", f.ready().Reason)
				controllertest.Equal(t, "calls", nil, f.server.calls)
			})
		}
	}
}
