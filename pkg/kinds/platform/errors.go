package platform

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// terminatingRetry is how often a Platform is reconciled while its namespace is being deleted, and
// goneRecheck after the deletion, in case an event is lost.
const (
	terminatingRetry = 30 * time.Second
	goneRecheck      = 30 * time.Second
)

func namespaceGoes(name string) error {
	return controller.Warn(messageTerminating.Wait(terminatingRetry, name))
}

// explainNamespace adds advice to the error of creating a namespace.
func explainNamespace(name string, err error) error {
	if apierrors.IsForbidden(err) {
		return controller.Stalled(messageNoNamespace.Error(name, err), forbiddenRetry)
	}
	return fmt.Errorf("creating Namespace %s: %w", name, err)
}

// explain adds the name of the component and advice to the error of a step.
func explain(platform *v1alpha1.Platform, c *component, err error) error {
	namespace := platform.Spec.Namespace
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return namespaceGoes(namespace) // the cache has not observed this yet
	case ofNamespace(err):
		return controller.Warn(messageNamespace.Wait(unconfirmedRetry, namespace))
	case apierrors.IsForbidden(err):
		return controller.Stalled(messageForbidden.Error(c.name, err, namespace), forbiddenRetry)
	}
	return fmt.Errorf("component %s: %w", c.name, err)
}

// ofNamespace reports whether an error says that the namespace does not exist.
func ofNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}
