package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// auditPolicy logs requests without their bodies. A write is logged when it is received, and again with its response.
// Any other request is logged only with its response.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: Metadata, omitStages: [RequestReceived]}
`

// write creates the files that the components read: among others, a key for ServiceAccounts, a certificate for the API
// server, and a token for the administrator. The kubeconfig contains the certificate and the token.
func (c *cluster) write() error {
	for _, dir := range []string{c.dir, c.path("log"), c.path("etcd")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{
		net.IPv4(127, 0, 0, 1),
	}, []string{"localhost"})
	if err != nil {
		return fmt.Errorf("creating the certificate of the API server: %w", err)
	}
	accounts, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("generating the key for service accounts: %w", err)
	}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return fmt.Errorf("generating a token: %w", err)
	}
	files := map[string][]byte{
		"apiserver.crt": certificate,
		"apiserver.key": key,
		"accounts.key": pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(accounts),
		}),
		"tokens.csv":  fmt.Appendf(nil, "%s,admin,admin,system:masters\n", hex.EncodeToString(token)),
		"audit.yaml":  []byte(auditPolicy),
		"stages.yaml": stages,
	}
	for name, data := range files {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"windlass": {Server: c.url(), CertificateAuthorityData: certificate}},
		AuthInfos:      map[string]*api.AuthInfo{"admin": {Token: hex.EncodeToString(token)}},
		Contexts:       map[string]*api.Context{"windlass": {Cluster: "windlass", AuthInfo: "admin"}},
		CurrentContext: "windlass",
	}, c.path("kubeconfig"))
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }
