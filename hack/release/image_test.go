package main

import (
	"archive/tar"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	spdxjson "github.com/spdx/tools-golang/json"
)

// example is the build that the tests publish.
var example = build{
	Root: "../..", Name: "windlass-controller", Version: "v0.2.0-rc.1", Commit: "0123456789abcdef",
	Date:    "2026-11-25T01:02:03+01:00",
	LDFlags: "-s -w -X k8s.io/component-base/version.gitVersion=v0.2.0-rc.1",
}

// release is a published image, and the directory with its archive and its SBOM.
type release struct {
	*made
	directory string
}

// publishExample builds and publishes the example below a directory.
func publishExample(ctx context.Context, directory string) (release, error) {
	m, err := example.image(ctx)
	if err != nil {
		return release{}, err
	}
	return release{m, directory}, publish(ctx, m, directory, "", io.Discard)
}

// first is the release that most tests share.
var first release

func TestMain(m *testing.M) {
	os.Exit(func() int {
		directory, err := os.MkdirTemp("", "windlass-release-")
		if err == nil {
			defer os.RemoveAll(directory)
			first, err = publishExample(context.Background(), directory)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer first.remove()
		return m.Run()
	}())
}

func TestTwoBuildsOfACommitAreEqual(t *testing.T) {
	t.Setenv("GOAMD64", "v3") // the settings of the user must have no effect
	t.Setenv("GOFLAGS", "-race")
	second, err := publishExample(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer second.remove()
	for _, name := range []string{"windlass-controller-v0.2.0-rc.1.tar", "windlass-controller-v0.2.0-rc.1.spdx.json"} {
		a, err := os.ReadFile(filepath.Join(first.directory, name))
		b, err2 := os.ReadFile(filepath.Join(second.directory, name))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

// images returns the images in an archive, by platform.
func images(t *testing.T, archive string) map[string]v1.Image {
	t.Helper()
	directory := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C",
		directory).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	index, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes adds the default registry to a name without one.
	got, want := outer.Manifests[0].Annotations["io.containerd.image.name"], "/library/windlass-controller:v0.2.0-rc.1"
	if !strings.HasSuffix(got, want) {
		t.Errorf("the archive names the image %s, want a name that ends with %s", got, want)
	}
	inner, err := index.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, descriptor := range manifest.Manifests {
		if found[descriptor.Platform.String()], err = inner.Image(descriptor.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// onlyFile returns the only file in an image.
func onlyFile(t *testing.T, image v1.Image) (*tar.Header, []byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	archive, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	r := tar.NewReader(archive)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the image has another file: %+v (%v)", second, err)
	}
	return header, content
}

func TestImageHasOnlyTheBinary(t *testing.T) {
	all := images(t, filepath.Join(first.directory, "windlass-controller-v0.2.0-rc.1.tar"))
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, slices.Sorted(maps.Keys(all))); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	for platform, image := range all {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := v1.Config{User: "65532:65532", Entrypoint: []string{"/controller"}, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":       "Windlass",
				"org.opencontainers.image.description": "A Kubernetes operator for apps, PostgreSQL databases and commands",
				"org.opencontainers.image.url":         "https://windlass.dev",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     "v0.2.0-rc.1",
				"org.opencontainers.image.revision":    "0123456789abcdef",
				"org.opencontainers.image.created":     "2026-11-25T00:02:03Z",
			}}
		if diff := cmp.Diff(want, config.Config); diff != "" {
			t.Errorf("configuration for %s (-want +got):\n%s", platform, diff)
		}
		header, binary := onlyFile(t, image)
		if header.Name != "controller" || header.Mode != 0o755 {
			t.Errorf("the image for %s has file %s with mode %o, want controller with mode 755", platform, header.Name,
				header.Mode)
		}
		checkBinary(t, binary, machines[platform])
	}
}

// checkBinary checks that a binary is static, and that it is for the given machine.
func checkBinary(t *testing.T, content []byte, machine elf.Machine) {
	t.Helper()
	binary, err := elf.NewFile(strings.NewReader(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	if binary.Machine != machine {
		t.Errorf("the binary is for %s, want %s", binary.Machine, machine)
	}
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 || binary.Section(".interp") != nil {
		t.Errorf("the binary is not static: %s (%v)", libraries, err)
	}
}

func TestSBOMNamesEveryModule(t *testing.T) {
	file, err := os.Open(filepath.Join(first.directory, "windlass-controller-v0.2.0-rc.1.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := spdxjson.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, p := range document.Packages {
		for _, reference := range p.PackageExternalReferences {
			named[reference.Locator] = true
		}
	}
	info, err := buildinfo.ReadFile(first.binaries["linux/arm64"])
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{
		"pkg:golang/windlass.dev/windlass@v0.2.0-rc.1", "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}
	for _, module := range info.Deps {
		wanted = append(wanted, "pkg:golang/"+module.Path+"@"+module.Version)
	}
	for _, locator := range wanted {
		if !named[locator] {
			t.Errorf("the SBOM lacks %s", locator)
		}
	}
	if len(document.Relationships) != len(document.Packages) {
		t.Errorf("%d relationships for %d packages", len(document.Relationships), len(document.Packages))
	}
}

// TestDockerfileGivesTheSameBinary runs the command of the Dockerfile that builds the binary, on the files that the
// Dockerfile copies.
func TestDockerfileGivesTheSameBinary(t *testing.T) {
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	for _, copied := range regexp.MustCompile(`(?m)^COPY ([a-z. ]+) \S+$`).FindAllStringSubmatch(string(dockerfile), -1) {
		for _, name := range strings.Fields(copied[1]) {
			if output, err := exec.CommandContext(t.Context(), "cp", "-r", filepath.Join("../..", name),
				source).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		}
	}
	command := regexp.MustCompile(`(?m)^RUN (.* go build .*)$`).FindStringSubmatch(string(dockerfile))
	if command == nil {
		t.Fatal("the Dockerfile has no line that runs `go build`")
	}
	target := filepath.Join(source, "binary")
	build := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command[1], "-o /controller", "-o "+target))
	build.Dir = source
	build.Env = append(os.Environ(), "LDFLAGS="+example.LDFlags, "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	got, err := os.ReadFile(target)
	want, err2 := os.ReadFile(first.binaries["linux/amd64"])
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("the binary of the Dockerfile differs from the binary of the image")
	}
}

func TestImageIsPushedToRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/windlass:v1"
	var out strings.Builder
	if err := publish(t.Context(), first.made, t.TempDir(), target, &out); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(target)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pushed.Digest()
	want, err2 := first.index.Digest()
	if err := errors.Join(err, err2); err != nil || got != want {
		t.Errorf("the registry has digest %s, want %s (%v)", got, want, err)
	}
	if !strings.Contains(out.String(), "@"+want.String()) {
		t.Errorf("the output does not name the image by its digest:\n%s", out.String())
	}
}
