package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// kubernetesPrefix is what the names of Kubernetes' own namespaces begin with.
const kubernetesPrefix = "kube-"

// checkNamespace refuses the namespaces of Kubernetes and of the operator itself.
func checkNamespace(name string, reserved []string) error {
	whose := "the operator"
	switch {
	case strings.HasPrefix(name, kubernetesPrefix):
		whose = "Kubernetes"
	case !slices.Contains(reserved, name):
		return nil
	}
	return controller.Terminal(controller.WithReason(reasonNotAllowed, fmt.Errorf(
		"namespace %s belongs to %s, and no Platform may use it; delete this Platform and make one with another namespace", name, whose)))
}

// hadNamespace tells whether the namespace of a Platform was ever there. A status of an
// earlier version does not say: a Platform that was reconciled counts as one that had it.
func hadNamespace(platform *v1alpha1.Platform) bool {
	if uid := platform.Status.NamespaceUID; uid != nil {
		return *uid != ""
	}
	return platform.Status.ObservedGeneration > 0
}

// namespace makes the namespace if it was never there. One that was there and is gone is not
// made again: it would lack what isolated it. A process that dies between the creation and
// the status makes it once more only if somebody deletes it before the next process starts.
func (r *reconciler) namespace(ctx context.Context, p *scope) error {
	name, status := p.platform.Spec.Namespace, &p.platform.Status
	known, err := r.namespaces.Get("", name)
	switch {
	case err == nil:
		status.NamespaceUID = ptr.To(known.GetUID())
		if known.GetDeletionTimestamp() != nil {
			return namespaceGoes(name)
		}
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Namespace %s from the cache: %w", name, err)
	case hadNamespace(p.platform):
		return r.namespaceGone(ctx, p)
	}
	if last, found := r.refusals.Recent(p.platform.UID, noComponent, attempt{}); found {
		return explainNamespace(name, last.Err)
	}
	p.confirmedUntil = time.Time{}
	if err := r.confirm(ctx, p); err != nil {
		return err
	}
	if hadNamespace(p.live) {
		return controller.Postpone(unconfirmedRetry) // which the cache does not know yet
	}
	made, err := r.homes.Create(ctx, desiredNamespace(p.platform), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // it, or its end, is about to be in the cache
	case err != nil:
		r.noteRefusal(p.platform, noComponent, attempt{}, err)
		return explainNamespace(name, err)
	}
	status.NamespaceUID = ptr.To(made.UID)
	r.tracker.Wrote(keyOf(p.platform), "Namespace", r.namespaces.Informer().GetStore(), made.ResourceVersion)
	return nil
}

// namespaceGone returns what is wrong with a namespace that was there and is not in the
// cache: nil if the API server has it all the same.
func (r *reconciler) namespaceGone(ctx context.Context, p *scope) error {
	name := p.platform.Spec.Namespace
	live, err := r.homes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return controller.Stalled(controller.WithReason(reasonGone, fmt.Errorf(
			"namespace %s was deleted, and is not made again, since its labels, quotas, policies and role bindings are gone with it; create it again with them, or delete this Platform", name)), goneRecheck)
	case err != nil:
		return fmt.Errorf("reading Namespace %s: %w", name, err)
	case live.DeletionTimestamp != nil:
		return namespaceGoes(name)
	}
	p.platform.Status.NamespaceUID = ptr.To(live.UID)
	return nil
}
