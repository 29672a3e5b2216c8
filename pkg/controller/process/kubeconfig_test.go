package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/controller/process"
)

// writeKubeconfig writes a kubeconfig file with the given section, and returns its path.
func writeKubeconfig(t *testing.T, section string) string {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"+section), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadConfigFollowsRulesOfClientGo(t *testing.T) {
	clusters := writeKubeconfig(t, "clusters: [{name: c, cluster: {server: 'https://a:6443'}}]\n")
	contexts := writeKubeconfig(t, "contexts: [{name: x, context: {cluster: c, namespace: shop}}]\ncurrent-context: x\n")
	whole := writeKubeconfig(t, "clusters: [{name: c, cluster: {server: 'https://b:6443'}}]\n"+
		"contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n")
	const master = "http://localhost:8080"
	for name, c := range map[string]struct{ env, master, kubeconfig, host, namespace string }{
		"a list of files in KUBECONFIG is merged": {
			env: clusters + ":" + contexts, host: "https://a:6443", namespace: "shop",
		},
		"a file in the list may be missing": {env: "/missing:" + whole, host: "https://b:6443", namespace: "default"},
		"--kubeconfig goes before KUBECONFIG": {
			env: clusters + ":" + contexts, kubeconfig: whole, host: "https://b:6443", namespace: "default",
		},
		"--master replaces the address": {kubeconfig: whole, master: master, host: master, namespace: "default"},
		"--master needs no cluster in a file": {
			env: writeKubeconfig(t, ""), master: master, host: master, namespace: "default",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.env)
			config, namespace, inCluster, err := process.LoadConfig(c.master, c.kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != c.host || namespace != c.namespace || inCluster {
				t.Errorf("got host %s, namespace %s, in cluster: %v", config.Host, namespace, inCluster)
			}
		})
	}
}

func TestLoadConfigFails(t *testing.T) {
	broken := writeKubeconfig(t, "contexts: 7\n")
	for _, path := range []string{"/missing", broken} {
		if _, _, _, err := process.LoadConfig("", path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("with --kubeconfig=%s: %v", path, err)
		}
	}
	t.Setenv("KUBECONFIG", "/missing")
	const want = "no file in the environment variable KUBECONFIG=/missing exists"
	if _, _, _, err := process.LoadConfig("", ""); err == nil || err.Error() != want {
		t.Errorf("with KUBECONFIG=/missing: %v", err)
	}
}
