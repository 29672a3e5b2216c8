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

// placeholder is the image in artifacts.
const placeholder = "image: windlass-controller:latest\n"

// runManifests writes what `kubectl kustomize artifacts` prints, with the image of a version.
func runManifests(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("manifests", flag.ContinueOnError)
	source := flags.String("artifacts", "artifacts", "Directory of the manifests.")
	version := flags.String("version", "", "Version of the operator, which is the tag of the image. Required.")
	image := flags.String("name", "windlass-controller", "Name of the image, without a tag.")
	path := flags.String("out", "dist/install.yaml", "File that is written.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := manifests(*source)
	if err != nil {
		return err
	}
	if n := strings.Count(text, placeholder); n != 1 || *version == "" {
		return fmt.Errorf("setting version %q of the image: %s names the image windlass-controller:latest %d times, want once", *version, *source, n)
	}
	text = strings.Replace(text, placeholder, fmt.Sprintf("image: %s:%s\n", *image, *version), 1)
	if err := os.WriteFile(*path, []byte(text), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s installs %s:%s\n", *path, *image, *version)
	return err
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
