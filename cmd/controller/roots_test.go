package main

import (
	"os"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestAPIServerIsVerifiedWithoutSystemRoots(t *testing.T) {
	controllertest.WithoutSystemRoots(t, func(t *testing.T) {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		text := `{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}], "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com"}}]}`
		controllertest.ErrorContains(t, "", os.WriteFile(kubeconfig, []byte(text), 0o600))
		_, _, _, err := loadConfig(kubeconfig)
		controllertest.ErrorContains(t, "", err)
		controllertest.Equal(t, "has roots", true, controllertest.HasRoots())
	})
}
