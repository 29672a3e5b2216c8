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

// terminatingRetry is how often a Platform is reconciled while its namespace is being deleted,
// goneRecheck after it was deleted, in case an event is lost.
const (
	terminatingRetry = 30 * time.Second
	goneRecheck      = 30 * time.Second
)

func namespaceGoes(name string) error {
	return controller.WaitFor(reasonTerminating, fmt.Sprintf(
		"Namespace %s is being deleted. It is not made again: when it is gone, create it with its labels, quotas, policies and role bindings, or delete the Platform.", name), terminatingRetry)
}

// explainNamespace adds to the error of creating a namespace what to do about it.
func explainNamespace(name string, err error) error {
	if apierrors.IsForbidden(err) {
		return forbidden(fmt.Errorf("creating Namespace %s: %w; create it yourself, or give the operator's account that right", name, err))
	}
	return fmt.Errorf("creating Namespace %s: %w", name, err)
}

// explain adds to the error of a step which component it concerns, and what to do about it.
func explain(platform *v1alpha1.Platform, c *component, err error) error {
	namespace := platform.Spec.Namespace
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return namespaceGoes(namespace) // the cache has not observed this yet
	case ofNamespace(err):
		return controller.WaitFor(reasonNamespace, fmt.Sprintf("Namespace %s was not found.", namespace), unconfirmedRetry)
	case apierrors.IsForbidden(err):
		return forbidden(fmt.Errorf("component %s: %w; it is for whoever governs namespace %s to allow it: rights of the operator's account, quotas, admission", c.name, err, namespace))
	}
	return fmt.Errorf("component %s: %w", c.name, err)
}

// forbidden returns the error for a request that somebody has to allow. No event tells when that happens.
func forbidden(err error) error {
	return controller.Stalled(controller.WithReason(reasonForbidden, err), forbiddenRetry)
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
