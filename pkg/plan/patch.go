package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	errOther   = errors.New("the object was replaced by another object of the same name")
	errChanged = errors.New("the object has been modified")
)

// apply returns current after the update or patch of a request. It returns an error if a precondition of the request
// does not hold.
func (q *request) apply(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := q.body, error(nil)
	if q.Method == http.MethodPatch {
		body, err = q.patched(current)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("applying a patch: %v", err))
	}
	want, err := decode(body)
	if err != nil {
		return nil, err
	}
	if err := q.mayChange(current, want.GetUID(), want.GetResourceVersion()); err != nil {
		return nil, err
	}
	want.SetUID(current.GetUID())
	want.SetResourceVersion(current.GetResourceVersion())
	return want, nil
}

// patched returns the JSON of current after the patch of a request.
func (q *request) patched(current *unstructured.Unstructured) ([]byte, error) {
	text, err := json.Marshal(current.Object)
	if err != nil {
		return nil, err
	}
	switch q.patchType() {
	case types.MergePatchType:
		return jsonpatch.MergePatch(text, q.body)
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, err
		}
		return patch.Apply(text)
	case types.StrategicMergePatchType:
		typed, err := scheme.Scheme.New(current.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		return strategicpatch.StrategicMergePatch(text, q.body, typed)
	}
	return nil, fmt.Errorf("a plan does not support patches of the type %q", q.patchType())
}

func (q *request) patchType() types.PatchType {
	form, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";")
	return types.PatchType(form)
}

// mayChange returns an error if the object does not have the UID or the resource version that a write requires.
func (q *request) mayChange(current *unstructured.Unstructured, uid types.UID, version string) error {
	switch {
	case uid != "" && uid != current.GetUID():
		return apierrors.NewConflict(q.Resource.GroupResource(), q.Name, errOther)
	case version != "" && version != current.GetResourceVersion():
		return apierrors.NewConflict(q.Resource.GroupResource(), q.Name, errChanged)
	}
	return nil
}
