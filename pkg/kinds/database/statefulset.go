package database

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// prepare sets the Pod template to apply. It returns an error if spec.podTemplate is invalid, and the Database has no
// StatefulSet.
func (r *reconciler) prepare(_ context.Context, p *scope) (err error) {
	if err := r.setRestore(p); err != nil {
		return err
	}
	r.prepareBackup(p)
	if p.template, err = desiredTemplate(p.db, r.image, p.restore); err == nil {
		return nil
	}
	p.cannotChange = messagePodTemplate.Error(err)
	set := r.ownStatefulSet(p)
	if set == nil {
		return controller.Stalled(p.cannotChange, 0)
	}
	p.template = r.previousTemplate(p, set)
	return nil
}

// ownStatefulSet returns the cached StatefulSet of the Database, unless it is being deleted, or nil.
func (r *reconciler) ownStatefulSet(p *scope) *appsv1.StatefulSet {
	set, err := r.statefulSet.Type().Cache.Get(p.db.Namespace, p.db.Name)
	if err != nil || !p.Owns(set) || set.DeletionTimestamp != nil {
		return nil
	}
	return set
}

// previousTemplate returns the Pod template that the operator desired last for a StatefulSet, with the requested
// restart. It returns nil if the StatefulSet has no valid record.
func (r *reconciler) previousTemplate(p *scope, set *appsv1.StatefulSet) *corev1.PodTemplateSpec {
	generated := generatedTemplate(p.db, r.image, p.restore)
	last, known := pods.LastTemplate(set)
	if !known || !isOurs(last, desiredStatefulSet(p.db, generated)) {
		return nil
	}
	if restart := generated.Annotations[restartAnnotation]; restart != "" {
		metav1.SetMetaDataAnnotation(&last.ObjectMeta, restartAnnotation, restart)
	}
	return last
}

// isRejected reports whether the API server, or a policy, has rejected an object.
func isRejected(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) }

// rejectedTemplate is the part of a Database under which reconciler.rejections has a rejected StatefulSet.
const rejectedTemplate = "StatefulSet"

// applyStatefulSet applies the StatefulSet by calling ensure. The StatefulSet controller replaces the Pod when the
// template changes. If the API server rejects a change of the StatefulSet, applyStatefulSet sets p.cannotChange,
// applies the previous template, and continues, because the server runs.
func (r *reconciler) applyStatefulSet(
	ctx context.Context, p *scope, ensure func(context.Context, *scope) error,
) error {
	set := r.ownStatefulSet(p)
	if p.cannotChange == nil {
		attempt := strconv.FormatInt(p.db.Generation, 10)
		last, rejected := r.rejections.Recent(p.db.UID, rejectedTemplate, attempt)
		if !rejected || set == nil {
			err := ensure(ctx, p)
			if !isRejected(err) || set == nil {
				return err
			}
			last = r.rejections.Note(p.db.UID, rejectedTemplate, attempt, err, pods.ShortestRejection, problemRetry)
		}
		p.cannotChange, p.retryChange = last.Err, last.Until.Sub(r.clock.Now())
		p.template = r.previousTemplate(p, set)
	}
	if p.template != nil {
		if err := ensure(ctx, p); !isRejected(err) {
			return err
		}
	}
	if p.statefulSet = set; set == nil { // deleted after prepare
		return controller.ErrDeletionNotObserved
	}
	return nil
}
