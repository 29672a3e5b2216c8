//go:build integration

package plan

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/postgres"
)

// foreignServer starts a server that stands for a server of another person. The server requests the MD5 hash of the
// password, and fails the test if a client sends it.
func foreignServer(t *testing.T) *postgres.Scripted {
	t.Helper()
	script := postgres.Asks(&pgproto3.AuthenticationMD5Password{}, func(response string) {
		t.Errorf("the server of somebody else got %q", response)
	})
	s, err := postgres.Play("127.0.0.1", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestPlanSendsNoStoredPasswordToServerInFile plans files that name the server of another person.
func TestPlanSendsNoStoredPasswordToServerInFile(t *testing.T) {
	namespace, foreign := shared.NewNamespace(t), foreignServer(t)
	createConnections(t, namespace)
	spec := v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "connect-" + namespace,
	}
	shared.CreateExternalDatabase(t, namespace, "shop", spec)
	shared.ExternalDatabaseIn(t, namespace, "shop", v1alpha1.ExternalDatabaseReady)
	fill := strings.NewReplacer("FOREIGN", "127.0.0.1:"+foreign.Port, "PORT", foreign.Port, "NAMESPACE", namespace).Replace
	const (
		secret   = "apiVersion: v1\nkind: Secret\nmetadata: {name: server}\nstringData: "
		uriAlone = secret + "{uri: 'postgresql://postgres@FOREIGN/postgres?sslmode=disable'}\n"
		another  = "apiVersion: v1\nkind: Secret\nmetadata: {name: theirs}\n" +
			"stringData: {uri: 'postgresql://postgres:canary@FOREIGN/postgres?sslmode=disable'}\n---\n" +
			"apiVersion: windlass.dev/v1alpha1\nkind: ExternalDatabase\nmetadata: {name: shop}\n" +
			"spec: {connectionSecretRef: {name: theirs}, databaseName: connect-NAMESPACE}\n"
		notAsked  = "The plan has connected to no PostgreSQL server"
		connect   = "--connect"
		elsewhere = " is stored for another host, port, sslmode or ca.crt"
	)
	for name, c := range map[string]struct {
		file, flag, says string
	}{
		"uri alone":                      {uriAlone, "", "port and uri disagree"},
		"uri alone, with --connect":      {uriAlone, connect, "port and uri disagree"},
		"port alone":                     {secret + "{port: 'PORT'}\n", "", notAsked},
		"port alone, with --connect":     {secret + "{port: 'PORT'}\n", connect, "the password in Secret server" + elsewhere},
		"another Secret":                 {another, "", notAsked},
		"another Secret, with --connect": {another, connect, "the password in Secret shop-credentials" + elsewhere},
		"another database":               {strings.ReplaceAll(another, "name: shop", "name: new"), "", notAsked},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"plan", "-n", namespace, "-f", "-", "--external-database-allowed-hosts", "127.0.0.0/8"}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			r := windlass(t, shared.Kubeconfig(), fill(c.file), args...)
			if r.code != 1 || !strings.Contains(r.out, c.says) {
				t.Errorf("exit code %d; the output lacks %q:\n%s%s", r.code, c.says, r.out, r.errors)
			}
			if _, total := foreign.Connections(); total > 0 {
				t.Errorf("the plan connected to the server of somebody else:\n%s", r.out)
			}
		})
	}
}

// TestPlanConnectsToServersOnlyOnRequest plans an ExternalDatabase on a server with drift.
func TestPlanConnectsToServersOnlyOnRequest(t *testing.T) {
	namespace := shared.NewNamespace(t)
	createConnections(t, namespace)
	name := "connect-" + namespace
	spec := v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: name,
		DeletionPolicy: v1alpha1.DeletionDelete,
	}
	shared.CreateExternalDatabase(t, namespace, "shop", spec)
	shared.ExternalDatabaseIn(t, namespace, "shop", v1alpha1.ExternalDatabaseReady)
	for _, connects := range []bool{false, true} {
		args := []string{
			"plan", "-n", namespace, "--delete", "externaldatabase/shop", "--external-database-allowed-hosts", "127.0.0.0/8",
		}
		if connects {
			args = append(args, "--connect")
		}
		r := windlass(t, shared.Kubeconfig(), "", args...)
		for text, wanted := range map[string]bool{
			"is deleted, with its roles and its database on the PostgreSQL server": true,
			"Secret " + namespace + "/shop-credentials is deleted":                 true,
			"DROP DATABASE \"" + name + "\"":                                       connects,
			"The plan has connected to no PostgreSQL server":                       !connects,
		} {
			if strings.Contains(r.out, text) != wanted {
				t.Errorf("%v: want %q in the output: %t; exit code %d:\n%s%s", args, text, wanted, r.code, r.out, r.errors)
			}
		}
	}
}
