package children

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// AdoptAnnotation is an annotation of an object that has no controlling owner. Its value is the kind and name of the
// object that may adopt it, in the form of MadeForAnnotation, for example App/web. An adopted object becomes a child:
// the desired state replaces its spec and its data, unless the children of the type outlive their owner. Labels and
// annotations that are not desired stay.
const AdoptAnnotation = controller.AnnotationDomain + "/adopt"

// MayAdopt reports whether an object that does not belong to the owner allows the owner to adopt it.
func (o Owner) MayAdopt(object metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(object) == nil && object.GetAnnotations()[AdoptAnnotation] == o.mark()
}

// taken is Owner.Taken for an object that could be a child of this type: if nobody owns the object, the message says
// how to let the owner adopt it.
func (t *Type[T]) taken(owner Owner, live T) error {
	if live.GetDeletionTimestamp() != nil || metav1.GetControllerOfNoCopy(live) != nil {
		return owner.Taken(t.Kind, live)
	}
	return controller.Stalled(messageAdoptable.Error(t.Kind, live.GetNamespace()+"/"+live.GetName(), owner.Kind.Kind,
		owner.mark()), conflictRecheck)
}

// workloadRecheck is how often an owner is reconciled that waits for a workload before it adopts a Service.
const workloadRecheck = 5 * time.Second

// WaitToAdopt returns the WaitFor error of an owner that adopts a Service only after the workload with the given kind
// belongs to the owner, and is available. Before, the Service would lead to no Pod. The workload has the name of the
// owner.
func (o Owner) WaitToAdopt(service metav1.Object, workload string) error {
	return messageAdoptionWaits.Wait(workloadRecheck, workload, o.key(), o.Kind.Kind,
		service.GetNamespace()+"/"+service.GetName())
}

// adopt brings an object with AdoptAnnotation to the desired state want, as a child of owner. isOwn reports whether it
// already belongs to owner.
func (t *Type[T]) adopt(ctx context.Context, owner Owner, want, live T, isOwn bool) (T, error) {
	if err := owner.ConfirmNotDeleted(); err != nil {
		return live, err
	}
	if t.Adopt != nil && !isOwn {
		try := func(want T) (T, error) {
			dry := *t
			dry.dryRun = []string{metav1.DryRunAll}
			return dry.writeAdoption(ctx, owner, want, live)
		}
		if err := t.Adopt(ctx, want, live, try); err != nil {
			return live, err
		}
	}
	return t.writeAdoption(ctx, owner, want, live)
}

// writeAdoption sends the patch that adopts live, by the last merge. For most types, this is replaceSpec, which keeps
// only the Yielded fields of the observed spec: a container that is not desired must not stay. Children that outlive
// their owner hold data, so that their merge keeps fields that are not desired. The change is never nil, because the
// patch removes AdoptAnnotation.
func (t *Type[T]) writeAdoption(ctx context.Context, owner Owner, want, live T) (T, error) {
	w, err := t.desiredStateOf(want)
	if err != nil {
		return live, fmt.Errorf("preparing %s: %w", t.describe(want), err)
	}
	w.adopts = true
	c, err := t.change(w, live, t.last())
	if err != nil {
		return live, fmt.Errorf("comparing %s with its desired state: %w", t.describe(want), err)
	}
	return t.apply(ctx, owner, w, live, c)
}
