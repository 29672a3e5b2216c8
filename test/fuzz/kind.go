// Package fuzz generates objects that the schemas of Windlass' kinds allow and that no user would write. It reads the
// schemas in the CustomResourceDefinitions, and generates odd strings, quantities, numbers and lists. The test creates
// such objects of each kind on a real API server, and checks that the operator still works for all other users.
package fuzz

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Kind is a kind in one of its served versions, as its CustomResourceDefinition describes it.
type Kind struct {
	// Name is the name of the kind, for example App.
	Name string
	// Resource is the group, version and resource of the kind.
	Resource schema.GroupVersionResource
	// Namespaced reports whether the kind is namespaced.
	Namespaced bool
	// Schema is the schema of a whole object.
	Schema *apiextensionsv1.JSONSchemaProps
	// Served are all served versions of the kind, the storage version first. Objects are generated for each version.
	Served []Version
}

// Version is a version of a kind, with its schema.
type Version struct {
	Name   string
	Schema *apiextensionsv1.JSONSchemaProps
}

// ReadKinds reads the CustomResourceDefinitions in a directory. It returns the kind in each file, in the
// storage version, sorted by file name.
func ReadKinds(dir string) ([]Kind, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the manifests in %s: %w", dir, err)
	}
	var kinds []Kind
	for _, file := range files {
		kind, err := readKind(file)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func readKind(file string) (Kind, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Kind{}, fmt.Errorf("reading a CustomResourceDefinition: %w", err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return Kind{}, fmt.Errorf("decoding %s: %w", file, err)
	}
	kind := Kind{Name: crd.Spec.Names.Kind, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped}
	for _, version := range crd.Spec.Versions {
		if !version.Served || version.Schema == nil {
			continue
		}
		served := Version{version.Name, version.Schema.OpenAPIV3Schema}
		if version.Storage {
			kind.Resource = schema.GroupVersionResource{
				Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural,
			}
			kind.Schema = served.Schema
			kind.Served = append([]Version{served}, kind.Served...)
		} else {
			kind.Served = append(kind.Served, served)
		}
	}
	if kind.Schema == nil {
		return Kind{}, fmt.Errorf("reading %s: the storage version is not served", file)
	}
	return kind, nil
}

// In returns the kind in another version.
func (k Kind) In(version Version) Kind {
	k.Resource.Version, k.Schema = version.Name, version.Schema
	return k
}
