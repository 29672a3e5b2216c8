package controllertest

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// Clientset is a fake clientset that gives access to its stored objects, generated or client-go's own.
type Clientset interface {
	Fake
	Tracker() clienttesting.ObjectTracker
}

// Server makes fake clientsets behave like one API server, as far as kinds depend on its behavior. A fake
// clientset without a Server stores objects as a client sends them. A Server
//
//   - assigns UIDs and resource versions, and leaves the version if a write changes nothing;
//   - counts generations: a change of the spec increases it, a change of the status does not;
//   - updates the status only through the subresource status, and all other fields only without this subresource;
//   - rejects a write whose precondition, a UID or a resource version, does not hold;
//   - stores no status with a new object;
//   - rejects two requests that custom resources do not support: a strategic merge patch, and an update without a
//     resource version;
//   - keeps a deleted object that has finalizers until its last finalizer is removed.
//
// Reactors that are prepended later see each request first.
type Server struct {
	now     func() time.Time
	mu      sync.Mutex
	version int64
}

// NewServer returns a Server that handles every request that clients send from now on.
func NewServer(now func() time.Time, clients ...Clientset) *Server {
	s := &Server{now: now, version: 100} // objects that a test adds to a tracker have lower versions
	for _, client := range clients {
		client.PrependReactor("*", "*", s.reaction(client.Tracker()))
	}
	return s
}

// Version returns the newest resource version.
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatInt(s.version, 10)
}

// Store stores an object including its status, like the writes of other clients: a controller that sets a
// status, or a user who changes a spec. It assigns the next resource version and, if the spec has changed,
// the next generation. resource is the object's resource. If tracker lacks the object, Store creates it.
func (s *Server) Store(
	tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, object runtime.Object,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	live, err := tracker.Get(resource, accessor.GetNamespace(), accessor.GetName())
	if apierrors.IsNotFound(err) {
		object = object.DeepCopyObject()
		if err := s.complete(object); err != nil {
			return err
		}
		return tracker.Create(resource, object, accessor.GetNamespace())
	}
	if err != nil {
		return err
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return err
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	object = object.DeepCopyObject()
	if err := s.stamp(object, !equality.Semantic.DeepEqual(before["spec"], after["spec"])); err != nil {
		return err
	}
	return tracker.Update(resource, object, accessor.GetNamespace())
}

// reaction returns the reactor for the clientset whose objects tracker stores.
func (s *Server) reaction(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	store, apply := clienttesting.ObjectReaction(tracker), clienttesting.ObjectReaction(dryRun{tracker})
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch a := action.(type) {
		case clienttesting.CreateActionImpl:
			object, err := s.created(a.Object)
			if err != nil {
				return true, nil, err
			}
			if isDryRun(a) {
				return true, object, absent(tracker, a, object)
			}
			a.Object = object
			return store(a)
		case clienttesting.UpdateActionImpl:
			sent, err := meta.Accessor(a.Object)
			if err != nil {
				return true, nil, err
			}
			if isCustom(a.Object) && sent.GetResourceVersion() == "" {
				return true, nil, apierrors.NewInvalid(schema.GroupKind{
					Group: a.Resource.Group, Kind: a.Resource.Resource,
				}, sent.GetName(), nil)
			}
			return s.write(tracker, a, identityOf(sent), func() (runtime.Object, error) { return a.Object, nil })
		case clienttesting.PatchActionImpl:
			identity, err := identityIn(a)
			if err != nil {
				return true, nil, err
			}
			into := tracker
			if isDryRun(a) {
				into = dryRun{tracker}
			}
			return s.write(into, a, identity, func() (runtime.Object, error) {
				_, patched, err := apply(a)
				if err == nil && a.PatchType == types.StrategicMergePatchType && isCustom(patched) {
					err = apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch",
						a.Resource.GroupResource(), a.Name, "", 0, false)
				}
				return patched, err
			})
		case clienttesting.DeleteActionImpl:
			return s.deleted(tracker, store, a)
		}
		return false, nil, nil
	}
}

// created returns the object that a create stores.
func (s *Server) created(object runtime.Object) (runtime.Object, error) {
	object = object.DeepCopyObject()
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if accessor.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	accessor.SetUID("")
	if object, err = withoutStatus(object); err != nil {
		return nil, err
	}
	return object, s.complete(object)
}

// complete sets the metadata that an API server sets when it creates an object, except for a UID that the object has.
func (s *Server) complete(object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	accessor.SetResourceVersion(s.next())
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID("uid-" + accessor.GetResourceVersion()))
	}
	if created := accessor.GetCreationTimestamp(); created.IsZero() {
		now := metav1.NewTime(s.now())
		accessor.SetCreationTimestamp(now.Rfc3339Copy())
	}
	if hasGeneration(object) {
		accessor.SetGeneration(1)
	}
	return nil
}

// write replaces the live object with the object that the function changed returns, if the precondition
// holds.
func (s *Server) write(
	tracker clienttesting.ObjectTracker, action clienttesting.Action, sent identity,
	changed func() (runtime.Object, error),
) (bool, runtime.Object, error) {
	resource, namespace := action.GetResource(), action.GetNamespace()
	live, err := storedObject(tracker, action, sent)
	if err != nil {
		return true, nil, err
	}
	object, err := changed()
	if err != nil {
		return true, nil, err
	}
	merged, err := s.merged(live, object, action.GetSubresource())
	if err != nil {
		return true, nil, err
	}
	if isLastFinalizerRemoved(live, merged) {
		return true, merged, tracker.Delete(resource, namespace, sent.name)
	}
	return true, merged, tracker.Update(resource, merged, namespace)
}

// deleted deletes an object if the precondition holds. It only sets the deletion timestamp of an object that
// has finalizers.
func (s *Server) deleted(
	tracker clienttesting.ObjectTracker, store clienttesting.ReactionFunc, a clienttesting.DeleteActionImpl,
) (bool, runtime.Object, error) {
	sent := identity{name: a.Name}
	if p := a.DeleteOptions.Preconditions; p != nil {
		sent.uid, sent.version = p.UID, p.ResourceVersion
	}
	live, err := storedObject(tracker, a, sent)
	if err != nil {
		return true, nil, err
	}
	accessor, err := meta.Accessor(live)
	if err != nil {
		return true, nil, err
	}
	finalizer := finalizerOf(a.DeleteOptions)
	if finalizer != "" && !slices.Contains(accessor.GetFinalizers(), finalizer) {
		accessor.SetFinalizers(append(accessor.GetFinalizers(), finalizer))
	}
	if len(accessor.GetFinalizers()) == 0 {
		s.next()
		return store(a)
	}
	if accessor.GetDeletionTimestamp() == nil {
		accessor.SetDeletionTimestamp(&metav1.Time{Time: s.now()})
		accessor.SetDeletionGracePeriodSeconds(new(int64)) // as for a Pod without a node
		if err := s.stamp(live, true); err != nil {
			return true, nil, err
		}
	}
	return true, live, tracker.Update(a.Resource, live, a.Namespace)
}

// next returns the next resource version.
func (s *Server) next() string {
	s.version++
	return strconv.FormatInt(s.version, 10)
}

// merged returns the object that a write of sent stores in place of live.
func (s *Server) merged(live, sent runtime.Object, subresource string) (runtime.Object, error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, err
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sent)
	if err != nil {
		return nil, err
	}
	if subresource == "status" {
		status := maps.Clone(after)
		after = runtime.DeepCopyJSON(before)
		copyFields(after, status, "status")
	} else {
		copyFields(after, before, "status")
		metadata, _ := after["metadata"].(map[string]any)
		liveMetadata, _ := before["metadata"].(map[string]any)
		copyFields(metadata, liveMetadata, "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
			"deletionGracePeriodSeconds")
	}
	if equality.Semantic.DeepEqual(before, after) {
		return live, nil
	}
	object, err := fromFields(live, after)
	if err != nil {
		return nil, err
	}
	return object, s.stamp(object, !equality.Semantic.DeepEqual(before["spec"], after["spec"]))
}

// stamp assigns the next resource version and, if the spec has changed, the next generation.
func (s *Server) stamp(object runtime.Object, specChanged bool) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	accessor.SetResourceVersion(s.next())
	if specChanged && hasGeneration(object) {
		accessor.SetGeneration(accessor.GetGeneration() + 1)
	}
	return nil
}
