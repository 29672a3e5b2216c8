package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// platforms are the platforms for which the image is built.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// compile builds the operator for a platform, and returns the path of the static binary in directory. The Dockerfile
// uses the same flags.
func (b *build) compile(ctx context.Context, platform v1.Platform, directory string) (string, error) {
	path := filepath.Join(directory, platform.Architecture)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", b.LDFlags, "-o",
		path, "./cmd/controller")
	command.Dir = b.Root
	// Settings in the environment or from `go env -w` must not change the binary. GOFLAGS is not empty, because Go ignores
	// an empty variable, and would use the value from `go env -w`.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOAMD64=v1", "GOARM64=v8.0",
		"GOEXPERIMENT=", "GOWORK=off",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the operator for %s: %w: %s", platform, err, output)
	}
	return path, nil
}
