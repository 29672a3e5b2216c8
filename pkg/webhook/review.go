package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/webhook/conversion"
)

// review has the fields of a ConversionReview that the webhook needs. Decoding it takes no memory for unknown fields.
type review struct {
	APIVersion string
	Kind       string
	Request    *struct {
		UID               types.UID
		DesiredAPIVersion string
		// Objects is the list of objects as one value: a slice of its elements could be much larger than the body.
		Objects json.RawMessage
	}
}

// readReview decodes a ConversionReview.
func readReview(body []byte) (*review, *requestError) {
	r := &review{}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, badRequest("reading the ConversionReview: %w", err)
	}
	want := apiextensionsv1.SchemeGroupVersion
	if r.APIVersion != want.String() || r.Kind != "ConversionReview" {
		return nil, badRequest("the request is %s, Kind=%s, not %s, Kind=ConversionReview", r.APIVersion, r.Kind, want)
	}
	if r.Request == nil {
		return nil, badRequest("the ConversionReview has no request")
	}
	if objects := r.Request.Objects; len(objects) > 0 && objects[0] != '[' && string(objects) != "null" {
		return nil, badRequest("reading the ConversionReview: objects is not a list")
	}
	return r, nil
}

// respond returns the ConversionReview that responds to r. If an object cannot be converted, the response contains the
// reason, and respond returns it as failure.
func (r *review) respond() (response []byte, failure error) {
	converted, failure := r.convert()
	result := metav1.Status{Status: metav1.StatusSuccess}
	if failure != nil {
		result = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonBadRequest, Message: failure.Error()}
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(&apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{Kind: "ConversionReview", APIVersion: apiextensionsv1.SchemeGroupVersion.String()},
		Response: &apiextensionsv1.ConversionResponse{UID: r.Request.UID, ConvertedObjects: converted, Result: result},
	})
	return buffer.Bytes(), errors.Join(failure, err)
}

// convert converts the objects one after the other. It stops at the first object that cannot be converted, because the
// API server cannot use a part of the result.
func (r *review) convert() (converted []runtime.RawExtension, err error) {
	if err := conversion.CheckDesired(r.Request.DesiredAPIVersion); err != nil {
		return nil, err
	}
	if len(r.Request.Objects) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(r.Request.Objects))
	if first, err := dec.Token(); err != nil || first == nil { // null is an empty list
		return nil, err
	}
	for i := 0; dec.More(); i++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fmt.Errorf("reading objects[%d]: %w", i, err)
		}
		object, err := conversion.ConvertAt(i, raw, r.Request.DesiredAPIVersion)
		if err != nil {
			return nil, err
		}
		converted = append(converted, runtime.RawExtension{Raw: object})
	}
	return converted, nil
}
