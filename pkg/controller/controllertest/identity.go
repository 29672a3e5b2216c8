package controllertest

import (
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// identity is the name of an object, and the precondition of a write: a UID and a version. Nil matches
// every UID or version.
type identity struct {
	name    string
	uid     *types.UID
	version *string
}

// identityOf returns the identity in an object that an update sends.
func identityOf(object metav1.Object) identity {
	sent := identity{name: object.GetName()}
	if uid := object.GetUID(); uid != "" {
		sent.uid = &uid
	}
	if version := object.GetResourceVersion(); version != "" {
		sent.version = &version
	}
	return sent
}

// identityIn returns the identity in a patch.
func identityIn(a clienttesting.PatchActionImpl) (identity, error) {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(a.Patch, &object); err != nil {
		return identity{}, err
	}
	sent := identityOf(&object)
	sent.name = a.Name
	return sent, nil
}

// storedObject returns a copy of the stored object if the precondition holds, and a conflict otherwise.
func storedObject(
	tracker clienttesting.ObjectTracker, action clienttesting.Action, sent identity,
) (runtime.Object, error) {
	live, err := tracker.Get(action.GetResource(), action.GetNamespace(), sent.name)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(live)
	if err != nil {
		return nil, err
	}
	otherUID := sent.uid != nil && *sent.uid != accessor.GetUID()
	switch {
	case sent.version != nil && *sent.version != accessor.GetResourceVersion(), otherUID && action.GetVerb() != "patch":
		return nil, apierrors.NewConflict(action.GetResource().GroupResource(), sent.name,
			errors.New("the precondition does not hold"))
	case otherUID: // a patch has no UID as its precondition, but cannot change the UID
		return nil, apierrors.NewInvalid(schema.GroupKind{
			Group: action.GetResource().Group, Kind: action.GetResource().Resource,
		}, sent.name, nil)
	}
	return live.DeepCopyObject(), nil
}

// copyFields copies fields from one object to another, and deletes the fields that from lacks.
func copyFields(to, from map[string]any, fields ...string) {
	for _, field := range fields {
		delete(to, field)
		if value, ok := from[field]; ok {
			to[field] = value
		}
	}
}
