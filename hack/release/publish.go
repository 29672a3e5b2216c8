package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// publish writes the archive and the SBOM of an image, pushes the image if push is not empty, and prints a line for
// each result.
func publish(ctx context.Context, m *made, directory, push string, out io.Writer) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	digest, err := m.index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest of the image: %w", err)
	}
	base := filepath.Join(directory, defaultName+"-"+m.Version)
	if err := m.archive(base + ".tar"); err != nil {
		return fmt.Errorf("writing the archive of the image: %w", err)
	}
	if err := m.writeSBOM(base+".spdx.json", digest.String()); err != nil {
		return fmt.Errorf("writing the SBOM of the image: %w", err)
	}
	fmt.Fprintf(out, "%s.tar has %s:%s, digest %s\n", base, m.Name, m.Version, digest)
	if push == "" {
		return nil
	}
	tag, err := name.NewTag(push, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading the name to push to: %w", err)
	}
	if err := remote.WriteIndex(tag, m.index, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing the image to %s: %w", tag, err)
	}
	fmt.Fprintf(out, "pushed %s; to name it by its digest: %s\n", tag, tag.Context().Digest(digest.String()))
	return nil
}

// archive writes the image as an OCI archive: a tar file with an OCI image layout, which `ctr images import`,
// `docker load` and `skopeo copy oci-archive:` read.
func (m *made) archive(path string) error {
	content, err := os.MkdirTemp("", "windlass-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(content)
	target, err := layout.Write(content, emptyIndex())
	if err != nil {
		return err
	}
	full, err := reference.ParseNormalizedNamed(m.Name + ":" + m.Version) // the kubelet asks containerd for this name
	if err != nil {
		return err
	}
	err = target.AppendIndex(m.index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": m.Version,
		"io.containerd.image.name":          full.String(),
	}))
	if err != nil {
		return err
	}
	return archiveDirectory(content, path, m.created)
}

// archiveDirectory writes a tar file with the files of a directory. All files get the same modification time.
func archiveDirectory(directory, path string, modified time.Time) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	w := tar.NewWriter(file)
	// WalkDir visits the files in lexical order.
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == directory {
			return err
		}
		inside, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeDir, Name: filepath.ToSlash(inside) + "/", Mode: 0o755, ModTime: modified,
			})
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: filepath.ToSlash(inside), Mode: 0o644, Size: int64(len(content)), ModTime: modified,
		}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
