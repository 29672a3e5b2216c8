package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/webhook/conversion"
)

// review has what the webhook needs of a ConversionReview. Decoding it takes no memory for unknown fields.
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

// convert converts the objects one after the other. It stops at the first object that cannot be converted, because the
// API server cannot use a part of the result.
func (r *review) convert() (converted []json.RawMessage, err error) {
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
		converted = append(converted, object)
	}
	return converted, nil
}

// writeResponse writes a ConversionReview that responds with the converted objects, or with failure if it is not nil.
// It writes one object at a time, because encoding the whole response would copy all of them.
func writeResponse(w io.Writer, uid types.UID, converted []json.RawMessage, failure error) error {
	result := metav1.Status{Status: metav1.StatusSuccess}
	if failure != nil {
		result = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonBadRequest, Message: failure.Error()}
	}
	head, err := json.Marshal(map[string]any{"uid": uid, "result": result})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"kind":"ConversionReview","apiVersion":%q,"response":%s,"convertedObjects":[`,
		apiextensionsv1.SchemeGroupVersion, strings.TrimSuffix(string(head), "}"))
	for i, object := range converted {
		if i > 0 && err == nil {
			_, err = io.WriteString(w, ",")
		}
		if err == nil {
			_, err = w.Write(object)
		}
	}
	if err == nil {
		_, err = io.WriteString(w, "]}}\n")
	}
	return err
}
