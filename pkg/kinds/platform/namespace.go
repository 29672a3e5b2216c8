package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// kubernetesPrefix is the prefix of the names of Kubernetes' own namespaces.
const kubernetesPrefix = "kube-"

// checkNamespace returns a Stalled error for the namespaces of Kubernetes and of the operator itself.
func checkNamespace(name string, reserved []string) error {
	whose := "the operator"
	switch {
	case strings.HasPrefix(name, kubernetesPrefix):
		whose = "Kubernetes"
	case !slices.Contains(reserved, name):
		return nil
	}
	return controller.Stalled(messageNotAllowed.Error(name, whose), 0)
}

// hadNamespace reports whether the namespace of a Platform has ever existed.
func hadNamespace(platform *v1alpha1.Platform) bool {
	return ptr.Deref(platform.Status.NamespaceUID, "") != ""
}

// namespace creates the namespace if it has never existed. It does not create a deleted namespace again,
// because the policies that isolated it are gone. If a process dies between the creation and the status
// write, and a user deletes the namespace before the next process starts, the namespace is created again.
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
	if last, found := r.rejections.Recent(p.platform.UID, noComponent, attempt{}); found {
		return explainNamespace(name, last.Err)
	}
	p.confirmedUntil = time.Time{}
	if err := r.confirm(ctx, p); err != nil {
		return err
	}
	if hadNamespace(p.live) {
		return controller.Postpone(unconfirmedRetry) // the cache lacks this status
	}
	made, err := r.homes.Create(ctx, desiredNamespace(p.platform), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // the event of its creation or deletion follows
	case err != nil:
		r.noteRejection(p.platform, noComponent, attempt{}, err)
		return explainNamespace(name, err)
	}
	status.NamespaceUID = ptr.To(made.UID)
	key, stored := cache.MetaObjectToName(p.platform), r.namespaces.Informer().GetStore()
	r.tracker.Wrote(key, "Namespace", stored, made.ResourceVersion)
	return nil
}

// namespaceGone returns the error for a namespace that existed before and is not in the cache. It returns
// nil if the API server has the namespace and does not delete it.
func (r *reconciler) namespaceGone(ctx context.Context, p *scope) error {
	name := p.platform.Spec.Namespace
	live, err := r.homes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return controller.Stalled(messageGone.Error(name), goneRecheck)
	case err != nil:
		return fmt.Errorf("reading Namespace %s: %w", name, err)
	case live.DeletionTimestamp != nil:
		return namespaceGoes(name)
	}
	p.platform.Status.NamespaceUID = ptr.To(live.UID)
	return nil
}
