package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// runManifests writes the manifests that `kubectl kustomize` prints for artifacts and its components, with the image of
// a version.
func runManifests(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("manifests", flag.ContinueOnError)
	source := flags.String("artifacts", "artifacts", "Directory of the manifests.")
	components := flags.String("components", "", "Components in the directory, such as monitoring,egress.")
	path := flags.String("out", "dist/install.yaml", "File that is written.")
	var t target
	if err := t.parse(flags, args); err != nil {
		return err
	}
	text, err := manifests(*source, strings.FieldsFunc(*components, func(r rune) bool { return r == ',' })...)
	if err != nil {
		return err
	}
	if text, err = replaceOnce(text, "image: "+defaultName+":latest\n",
		fmt.Sprintf("image: %s:%s\n", t.image, t.version)); err != nil {
		return fmt.Errorf("setting the image in %s, whose kustomization.yaml must not be changed: %w", *source, err)
	}
	if err := os.WriteFile(*path, []byte(text), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s installs %s:%s\n", *path, t.image, t.version)
	return err
}

// replaceOnce replaces a text that must occur exactly once.
func replaceOnce(text, from, to string) (string, error) {
	if n := strings.Count(text, from); n != 1 {
		return "", fmt.Errorf("%q occurs %d times, want once", strings.TrimSpace(from), n)
	}
	return strings.Replace(text, from, to, 1), nil
}

// manifests returns the manifests that `kubectl kustomize` prints for a directory and some of its components, such as
// monitoring.
func manifests(directory string, components ...string) (string, error) {
	overlay, err := os.MkdirTemp("", "manifests")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(overlay)
	base, err1 := filepath.Abs(directory)
	relative, err2 := filepath.Rel(overlay, base) // kustomize accepts only relative paths
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	kustomization := types.Kustomization{Resources: []string{relative}}
	for _, component := range components {
		kustomization.Components = append(kustomization.Components, filepath.Join(relative, component))
	}
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(overlay, konfig.DefaultKustomizationFileName()), text, 0o600); err != nil {
		return "", err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", directory, err)
	}
	text, err = built.AsYaml()
	return string(text), err
}
