package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// runChart writes the Helm chart as a package.
func runChart(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	source := flags.String("chart", "charts/windlass", "Directory of the chart.")
	version := flags.String("version", "", "Version of the operator, such as v0.2.0. Required.")
	image := flags.String("name", defaultName, "Name of the image, without a tag.")
	directory := flags.String("out", "dist", "Directory of the package.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *version == "" {
		return errors.New("the flag --version is required")
	}
	chart, err := loader.LoadDir(*source)
	if err != nil {
		return fmt.Errorf("loading the chart: %w", err)
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = strings.TrimPrefix(*version, "v"), *version
	for _, file := range chart.Raw {
		if file.Name != "values.yaml" { // Save writes the values as they are in this file
			continue
		}
		changed, err := replaceOnce(string(file.Data), "repository: "+defaultName+"\n", "repository: "+*image+"\n")
		if err != nil {
			return fmt.Errorf("setting the image in the values of the chart: %w", err)
		}
		file.Data = []byte(changed)
	}
	if err := os.MkdirAll(*directory, 0o755); err != nil {
		return err
	}
	path, err := chartutil.Save(chart, *directory)
	if err != nil {
		return fmt.Errorf("packaging the chart: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s has the chart of version %s\n", path, *version)
	return err
}
