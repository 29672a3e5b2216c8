package children

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inOrder sorts the causes in an error of the API server about an invalid object. The API server finds
// some causes by iterating over a map, so without inOrder a status with the error would change with every
// attempt. inOrder returns other errors unchanged.
func inOrder(err error) error {
	var rejected *apierrors.StatusError
	if !apierrors.IsInvalid(err) || !errors.As(err, &rejected) || rejected.ErrStatus.Details == nil {
		return err
	}
	what, _, ok := strings.Cut(rejected.ErrStatus.Message, ": ")
	if !ok || len(rejected.ErrStatus.Details.Causes) < 2 {
		return err
	}
	status := rejected.ErrStatus.DeepCopy()
	causes := status.Details.Causes
	slices.SortFunc(causes, func(a, b metav1.StatusCause) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
	})
	said := make([]string, len(causes))
	for i, cause := range causes {
		said[i] = cause.Field + ": " + cause.Message
	}
	status.Message = what + ": [" + strings.Join(said, ", ") + "]"
	return &apierrors.StatusError{ErrStatus: *status}
}

// rejectsField reports whether the API server rejected an object because of the value of a field. If a
// ValidatingAdmissionPolicy denies a write, the error has the same reason, but its causes name no field
// (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
func rejectsField(err error) bool {
	var rejected *apierrors.StatusError
	if !apierrors.IsInvalid(err) || !errors.As(err, &rejected) || rejected.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(rejected.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return c.Field != "" })
}
