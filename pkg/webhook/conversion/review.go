package conversion

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Review answers one request of the API server. The converted objects come in
// the order of the request. One that cannot be converted fails the whole: the
// API server has no use for a part.
func Review(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID}
	objects, err := convertAll(request.Objects, request.DesiredAPIVersion)
	if err != nil {
		response.Result = metav1.Status{
			Status:  metav1.StatusFailure,
			Reason:  metav1.StatusReasonBadRequest,
			Message: err.Error(),
		}
		return response
	}
	response.Result = metav1.Status{Status: metav1.StatusSuccess}
	response.ConvertedObjects = objects
	return response
}

func convertAll(objects []runtime.RawExtension, desired string) ([]runtime.RawExtension, error) {
	if err := checkVersion(desired); err != nil {
		return nil, fmt.Errorf("desired %w", err)
	}
	converted := make([]runtime.RawExtension, len(objects))
	for i, o := range objects {
		raw, err := Convert(o.Raw, desired)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]%s: %w", i, nameOf(o.Raw), err)
		}
		converted[i].Raw = raw
	}
	return converted, nil
}

// nameOf says which object it is, as far as can be told.
func nameOf(raw []byte) string {
	var named struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(raw, &named); err != nil || named.Metadata.Name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s %s/%s)", named.Kind, named.Metadata.Namespace, named.Metadata.Name)
}
