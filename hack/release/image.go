package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The image contains one file, the binary, and runs it as user. The root certificates are in the binary (pkg/roots). A
// file with root certificates would take precedence, and would lack the constraints of individual certificates.
const (
	binaryPath = "controller"
	user       = "65532:65532"
)

// build holds the parameters of a build.
type build struct {
	Root    string // the directory of the main module
	Name    string // the name of the image, without a tag
	Version string // the version of the operator, which is the tag of the image
	Commit  string
	Date    string // the time of the commit, in RFC 3339
	LDFlags string
}

// made is an image for all platforms.
type made struct {
	build
	created  time.Time
	index    v1.ImageIndex
	binaries map[string]string // the path of the binary, by platform
	scratch  string            // the directory of the binaries
}

// remove removes the binaries.
func (m *made) remove() { _ = os.RemoveAll(m.scratch) }

// image builds the image for all platforms. The caller must call remove.
func (b *build) image(ctx context.Context) (*made, error) {
	if b.Version == "" || b.Commit == "" {
		return nil, errors.New("the flags --version and --commit are required")
	}
	created, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return nil, fmt.Errorf("reading the flag --date: %w", err)
	}
	scratch, err := os.MkdirTemp("", "windlass-image-")
	if err != nil {
		return nil, err
	}
	m := &made{build: *b, created: created.UTC(), binaries: map[string]string{}, scratch: scratch}
	m.index = emptyIndex()
	for _, platform := range platforms {
		if err := m.add(ctx, platform); err != nil {
			m.remove()
			return nil, err
		}
	}
	m.index = mutate.Annotations(m.index, m.labels()).(v1.ImageIndex)
	return m, nil
}

// add adds the image for a platform to the index.
func (m *made) add(ctx context.Context, platform v1.Platform) error {
	binary, err := m.compile(ctx, platform, m.scratch)
	if err != nil {
		return err
	}
	m.binaries[platform.String()] = binary
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	layer, err := layerOf(content, m.created)
	if err != nil {
		return fmt.Errorf("writing the layer of the image: %w", err)
	}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: m.created}, CreatedBy: "windlass release",
	}}); err != nil {
		return fmt.Errorf("adding the layer to the image: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: m.created}
	config.Config = v1.Config{Entrypoint: []string{"/" + binaryPath}, User: user, WorkingDir: "/", Labels: m.labels()}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fmt.Errorf("setting the configuration of the image: %w", err)
	}
	m.index = mutate.AppendManifests(m.index, mutate.IndexAddendum{
		Add: image, Descriptor: v1.Descriptor{Platform: &platform},
	})
	return nil
}

// labels returns the labels and annotations of the image: see the OCI image specification,
// https://github.com/opencontainers/image-spec/blob/main/annotations.md.
func (m *made) labels() map[string]string {
	const domain = "org.opencontainers.image."
	return map[string]string{
		domain + "title":       "Windlass",
		domain + "description": "A Kubernetes operator for apps, PostgreSQL databases and commands",
		domain + "url":         "https://windlass.dev",
		domain + "licenses":    "Apache-2.0",
		domain + "version":     m.Version,
		domain + "revision":    m.Commit,
		domain + "created":     m.created.Format(time.RFC3339),
	}
}

// layerOf returns a layer with the binary.
func layerOf(binary []byte, modified time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: binaryPath, Mode: 0o755, Size: int64(len(binary)), ModTime: modified,
	}); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func emptyIndex() v1.ImageIndex { return mutate.IndexMediaType(empty.Index, types.OCIImageIndex) }
