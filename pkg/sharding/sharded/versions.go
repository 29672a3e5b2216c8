package sharded

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// versionOf returns the resource version of an event. An error has none.
func versionOf(event watch.Event) (string, error) {
	if event.Type == watch.Error {
		return "", nil
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	version := object.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	return version, nil
}

// isVersion reports whether a resource version is a specific one, unlike "" and "0".
func isVersion(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

// isNewer reports whether a resource version is newer than another one.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// endsInitialEvents reports whether an event is the bookmark after the initial events of a watch.
func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
