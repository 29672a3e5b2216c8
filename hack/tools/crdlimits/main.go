// Command crdlimits completes the CustomResourceDefinitions that controller-gen has written. It limits the size of all
// fields that no marker in pkg/apis limits, makes the API server reject quantities and times that Go cannot decode, and
// configures the conversion between versions.
//
//	crdlimits CONVERSION CRD...
//
// CONVERSION is a YAML file. crdlimits copies its field conversion to the spec of each CustomResourceDefinition with
// several versions. Each CRD is a file that crdlimits rewrites.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: crdlimits CONVERSION CRD...")
		os.Exit(2)
	}
	for _, file := range os.Args[2:] {
		if err := complete(file, os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "completing %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// complete rewrites the file of one CustomResourceDefinition.
func complete(file, conversionFile string) error {
	crd, err := read(file)
	if err != nil {
		return err
	}
	spec, ok := crd["spec"].(node)
	if !ok {
		return fmt.Errorf("spec is missing")
	}
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		if err := limitVersion(version); err != nil {
			return err
		}
	}
	if len(versions) > 1 {
		conversion, err := read(conversionFile)
		if err != nil {
			return err
		}
		spec["conversion"] = conversion["conversion"]
	}
	text, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}

// limitVersion limits spec and status of one version. The API server itself limits the rest of an object.
func limitVersion(version any) error {
	v, _ := version.(node)
	schema, _ := v["schema"].(node)
	root, _ := schema["openAPIV3Schema"].(node)
	fields, _ := root["properties"].(node)
	for _, name := range []string{"spec", "status"} {
		field, ok := fields[name].(node)
		if !ok {
			return fmt.Errorf("version %v has no %s", v["name"], name)
		}
		if err := limit(field, name); err != nil {
			return fmt.Errorf("version %v: %w", v["name"], err)
		}
	}
	return nil
}

func read(file string) (node, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content node
	return content, yaml.Unmarshal(text, &content)
}
