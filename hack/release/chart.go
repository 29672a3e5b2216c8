package main

import (
	"context"
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
	directory := flags.String("out", "dist", "Directory of the package.")
	var t target
	if err := t.parse(flags, args); err != nil {
		return err
	}
	chart, err := loader.LoadDir(*source)
	if err != nil {
		return fmt.Errorf("loading the chart: %w", err)
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = strings.TrimPrefix(t.version, "v"), t.version
	for _, file := range chart.Raw {
		if file.Name != "values.yaml" { // Save writes the values as they are in this file
			continue
		}
		changed, err := replaceOnce(string(file.Data), "repository: "+defaultName+"\n", "repository: "+t.image+"\n")
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
	_, err = fmt.Fprintf(out, "%s has the chart of version %s\n", path, t.version)
	return err
}
