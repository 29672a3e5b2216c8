package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestControllerHasNothingOfThePlugin checks that the operator does not depend on libraries of command-line tools.
func TestControllerHasNothingOfThePlugin(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{
		"k8s.io/cli-runtime", "github.com/aymanbagabas/go-udiff", "sigs.k8s.io/kustomize", "windlass.dev/windlass/pkg/plan",
	} {
		if strings.Contains(string(out), "\n"+library) {
			t.Errorf("the operator depends on %s", library)
		}
	}
}
