package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	cnatv1alpha1 "windlass.dev/windlass/pkg/apis/cnat/v1alpha1"
	"windlass.dev/windlass/pkg/cache/lenient"
)

const kind = "At"

// The values of apiVersion.
var (
	versionV1       = cnatv1.GroupVersion.String()
	versionV1alpha1 = cnatv1alpha1.GroupVersion.String()
)

// Convert converts an At, as JSON, to the apiVersion desired, such as cnat.programming-kubernetes.info/v1. It
// returns an At that already has this version unchanged. Its errors do not name the object: the caller adds
// the name.
func Convert(raw []byte, desired string) ([]byte, error) {
	if err := CheckDesired(desired); err != nil {
		return nil, err
	}
	a, version, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if version == desired {
		return raw, nil
	}
	if desired == versionV1alpha1 {
		a.readable = lenient.Check[typed[cnatv1.AtSpec, cnatv1.AtStatus]](raw) == nil
		err = a.toV1alpha1()
	} else if err = lenient.Check[typed[cnatv1alpha1.AtSpec, cnatv1.AtStatus]](raw); err == nil {
		err = a.toV1()
	}
	if err != nil {
		return nil, err
	}
	return a.encode(desired)
}

// parse decodes an At of either version.
func parse(raw []byte) (a *at, version string, err error) {
	a = &at{}
	if json.Unmarshal(raw, &a.whole) != nil || a.whole == nil {
		return nil, "", errors.New("the object is not a JSON object")
	}
	if version, err = field[string](a.whole, "apiVersion"); err != nil {
		return nil, "", err
	}
	if err := checkVersion("apiVersion", version); err != nil {
		return nil, "", err
	}
	if name, err := field[string](a.whole, "kind"); err != nil || name != kind {
		return nil, "", fmt.Errorf("kind %q is not %s", name, kind)
	}
	if a.metadata, err = field[object](a.whole, "metadata"); err != nil {
		return nil, "", err
	}
	if a.metadata == nil {
		return nil, "", errors.New("the object has no metadata")
	}
	if a.annotations, err = field[map[string]string](a.metadata, "annotations"); err != nil {
		return nil, "", fmt.Errorf("metadata.%w", err)
	}
	if a.spec, err = field[object](a.whole, "spec"); err != nil {
		return nil, "", err
	}
	if a.status, err = field[object](a.whole, "status"); err != nil {
		return nil, "", err
	}
	return a, version, nil
}

// encode returns the At as JSON with an apiVersion. Of the metadata, it changes only the annotations.
func (a *at) encode(version string) ([]byte, error) {
	if err := a.encodeAnnotations(); err != nil {
		return nil, err
	}
	parts := map[string]any{"apiVersion": version, "metadata": a.metadata}
	if a.spec != nil {
		parts["spec"] = a.spec
	}
	if a.status != nil {
		parts["status"] = a.status
	}
	for name, part := range parts {
		if err := a.whole.set(name, part); err != nil {
			return nil, err
		}
	}
	return encode(a.whole)
}

func (a *at) encodeAnnotations() error {
	before, err := field[map[string]string](a.metadata, "annotations")
	if err != nil || maps.Equal(before, a.annotations) {
		return err
	}
	if len(a.annotations) == 0 {
		delete(a.metadata, "annotations")
		return nil
	}
	return a.metadata.set("annotations", a.annotations)
}

// CheckDesired returns an error unless Convert can convert to version.
func CheckDesired(version string) error {
	return checkVersion("desiredAPIVersion", version)
}

// checkVersion returns an error unless version is an apiVersion of At. name is the field that has this value.
func checkVersion(name, version string) error {
	if !slices.Contains([]string{versionV1, versionV1alpha1}, version) {
		return fmt.Errorf("%s %q is neither %s nor %s", name, version, versionV1, versionV1alpha1)
	}
	return nil
}
