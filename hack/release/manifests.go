package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// runManifests writes what `kubectl kustomize artifacts` prints, with the image of a version.
func runManifests(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("manifests", flag.ContinueOnError)
	source := flags.String("artifacts", "artifacts", "Directory of the manifests.")
	path := flags.String("out", "dist/install.yaml", "File that is written.")
	var t target
	if err := t.parse(flags, args); err != nil {
		return err
	}
	text, err := manifests(*source)
	if err != nil {
		return err
	}
	if text, err = replaceOnce(text, "image: "+defaultName+":latest\n", fmt.Sprintf("image: %s:%s\n", t.image, t.version)); err != nil {
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

// manifests returns what `kubectl kustomize` prints for a directory.
func manifests(directory string) (string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", directory, err)
	}
	text, err := built.AsYaml()
	return string(text), err
}
