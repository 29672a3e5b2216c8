// Command release builds the files of a release of Windlass.
//
//	release image --out DIRECTORY [--push NAME:TAG]
//
// builds the image of the operator for all platforms, without a container engine. It writes an OCI archive and an SBOM,
// and pushes the image to a registry if --push is set. The result depends only on the commit, the version and the
// version of Go: two builds have the same digest.
//
//	release chart --version VERSION --out DIRECTORY
//
// writes the Helm chart as a package with this version.
//
//	release manifests --version VERSION --out FILE
//
// writes the manifests in artifacts as one file, with the image of this version.
//
//	release notes --version VERSION
//
// prints the section of CHANGELOG.md for a version.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// defaultName is the name of the image in artifacts and in the values of the chart.
const defaultName = "windlass-controller"

// commands are the subcommands.
var commands = map[string]func(ctx context.Context, args []string, out io.Writer) error{
	"chart":     runChart,
	"image":     runImage,
	"manifests": runManifests,
	"notes":     runNotes,
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: release image|chart|manifests|notes [flags]")
	}
	return commands[args[0]](ctx, args[1:], out)
}

// target is the release for which a subcommand writes files.
type target struct {
	version string // of the operator, which is the tag of the image
	image   string // the name of the image, without a tag
}

// parse adds the flags of a target to flags, and parses args.
func (t *target) parse(flags *flag.FlagSet, args []string) error {
	flags.StringVar(&t.version, "version", "", "Version of the operator, such as v0.2.0, which is the tag of the "+
		"image. Required.")
	flags.StringVar(&t.image, "name", defaultName, "Name of the image, without a tag.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if t.version == "" {
		return errors.New("the flag --version is required")
	}
	return nil
}

func runImage(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	b := build{}
	flags.StringVar(&b.Root, "root", ".", "Directory of the main module.")
	flags.StringVar(&b.Name, "name", defaultName, "Name of the image in the archive, without a tag.")
	flags.StringVar(&b.Version, "version", "", "Version of the operator, which is the tag of the image. Required.")
	flags.StringVar(&b.Commit, "commit", "", "Commit that is built. Required.")
	flags.StringVar(&b.Date, "date", "", "Time of the commit, in RFC 3339. Required.")
	flags.StringVar(&b.LDFlags, "ldflags", "", "Flags of the linker.")
	directory := flags.String("out", "dist", "Directory of the archive and the SBOM.")
	push := flags.String("push", "", "Name and tag under which the image is pushed to a registry, with the "+
		"credentials of `docker login`. Empty means not to push.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *push != "" {
		if _, err := name.NewTag(*push, name.StrictValidation); err != nil {
			return fmt.Errorf("reading the flag --push: %w", err)
		}
	}
	made, err := b.image(ctx)
	if err != nil {
		return err
	}
	defer made.remove()
	return publish(ctx, made, *directory, *push, out)
}
