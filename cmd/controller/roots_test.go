package main

import (
	"os"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/process"
)

func TestAPIServerIsVerifiedWithoutSystemRoots(t *testing.T) {
	controllertest.WithoutSystemRoots(t, func(t *testing.T) {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		text := `{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}], "clusters": ` +
			`[{"name": "c", "cluster": {"server": "https://api.example.com"}}]}`
		controllertest.ErrorContains(t, "", os.WriteFile(kubeconfig, []byte(text), 0o600))
		_, err := newClients(&options{kubeconfig: kubeconfig}, &process.Fence{})
		controllertest.ErrorContains(t, "", err)
		controllertest.Equal(t, "has roots", true, controllertest.HasRoots())
	})
}
