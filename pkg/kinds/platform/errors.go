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

// terminatingRetry is when a namespace is looked at again that is being deleted, and
// goneRecheck when one that is gone, should the event that tells of it be lost.
const (
	terminatingRetry = 30 * time.Second
	goneRecheck      = 30 * time.Second
)

func namespaceGoes(name string) error {
	return controller.WaitFor(reasonTerminating, fmt.Sprintf(
		"Namespace %s is being deleted. It is not made again: when it is gone, create it with its labels, quotas, policies and role bindings, or delete the Platform.", name), terminatingRetry)
}

// explainNamespace says what to do about a namespace that could not be made.
func explainNamespace(name string, err error) error {
	if apierrors.IsForbidden(err) {
		return forbidden(fmt.Errorf("creating Namespace %s: %w; create it yourself, or give the operator's account that right", name, err))
	}
	return fmt.Errorf("creating Namespace %s: %w", name, err)
}

// explain turns the error of a component's step into one that says what to do.
func explain(platform *v1alpha1.Platform, c *component, err error) error {
	namespace := platform.Spec.Namespace
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return namespaceGoes(namespace) // which the cache does not know yet
	case ofNamespace(err):
		return controller.WaitFor(reasonNamespace, fmt.Sprintf("Namespace %s was not found.", namespace), unconfirmedRetry)
	case apierrors.IsForbidden(err):
		return forbidden(fmt.Errorf("component %s: %w; it is for whoever governs namespace %s to allow it: rights of the operator's account, quotas, admission", c.name, err, namespace))
	}
	return fmt.Errorf("component %s: %w", c.name, err)
}

// forbidden is for what somebody must allow, of which no event tells.
func forbidden(err error) error {
	return controller.Stalled(controller.WithReason(reasonForbidden, err), forbiddenRetry)
}

// ofNamespace tells whether an error says that there is no such namespace.
func ofNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}
