package children

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// AdoptAnnotation is an annotation of an object that has no controlling owner. Its value is the kind and name of the
// object that may adopt it, in the form of MadeForAnnotation, for example App/web. An adopted object becomes a child:
// the desired state replaces its spec and its data. Its other labels and annotations stay.
const AdoptAnnotation = controller.AnnotationDomain + "/adopt"

// mayAdopt reports whether an object that does not belong to the owner allows the owner to adopt it.
func (o Owner) mayAdopt(object metav1.Object) bool {
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

// adopt brings an object that allows it to the desired state want, as a child of owner.
func (t *Type[T]) adopt(ctx context.Context, owner Owner, want, live T) (T, error) {
	if err := owner.ConfirmNotDeleted(); err != nil {
		return live, err
	}
	if t.Adopt != nil {
		try := func(want T) (T, error) {
			dry := *t
			dry.dryRun = []string{metav1.DryRunAll}
			return dry.writeAdoption(ctx, owner, want, live)
		}
		if err := t.Adopt(want, live, try); err != nil {
			return live, err
		}
	}
	return t.writeAdoption(ctx, owner, want, live)
}

// writeAdoption sends the patch that adopts live. The patch is by the last merge, which keeps nothing of live in the
// spec: a container that is not desired must not stay. Only an object that outlives its owner, and therefore holds
// data, keeps the fields that are not desired. There is always a change, because the patch removes AdoptAnnotation.
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
	adopted, err := t.apply(ctx, owner, w, live, c)
	if err == nil {
		t.noteRewrite(owner, w, adopted)
	}
	return adopted, err
}
