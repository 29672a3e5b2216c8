package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/webhook/conversion"
)

// maxValue is the largest size of an object in a request, in bytes. The API server rejects objects larger
// than 3 MiB (MaxRequestBodyBytes in k8s.io/apiserver/pkg/server/config.go).
const maxValue = 4 << 20

// review is a ConversionReview. Its objects are converted while it is read, so that a request needs memory only
// for the response and for its largest object.
type review struct {
	converting chan struct{} // has an item for each conversion in progress, of any request
	version    string
	kind       string
	asked      bool
	uid        types.UID
	desired    string
	hasDesired bool
	converted  []json.RawMessage
	failure    error // the error that fails the conversion, or nil
}

// readReview reads a ConversionReview and converts its objects.
func readReview(body io.Reader, converting chan struct{}) (*review, *requestError) {
	ahead := &ahead{body: body}
	dec := json.NewDecoder(ahead)
	ahead.at = dec.InputOffset
	r := &review{converting: converting}
	err := members(dec, map[string]func() error{
		"apiVersion": func() error { return dec.Decode(&r.version) },
		"kind":       func() error { return dec.Decode(&r.kind) },
		"request":    func() error { return r.readRequest(dec) },
	})
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("unexpected data after the ConversionReview")
		}
	}
	switch {
	case errors.Is(ahead.failed, errBusy):
		return nil, &requestError{http.StatusServiceUnavailable, errBusy}
	case errors.As(ahead.failed, new(*http.MaxBytesError)):
		return nil, &requestError{http.StatusRequestEntityTooLarge, fmt.Errorf("the request has more than %d bytes", maxBody)}
	case errors.Is(ahead.failed, errValue):
		return nil, &requestError{http.StatusRequestEntityTooLarge, errValue}
	case ahead.failed != nil:
		return nil, badRequest("reading the request: %w", ahead.failed)
	case err != nil:
		return nil, badRequest("reading the ConversionReview: %w", err)
	}
	want := apiextensionsv1.SchemeGroupVersion
	if r.version != want.String() || r.kind != "ConversionReview" {
		return nil, badRequest("the request is %s, Kind=%s, not %s, Kind=ConversionReview", r.version, r.kind, want)
	}
	if !r.asked {
		return nil, badRequest("the ConversionReview has no request")
	}
	if r.failure == nil {
		r.failure = conversion.CheckDesired(r.desired)
	}
	return r, nil
}

func (r *review) readRequest(dec *json.Decoder) error {
	r.asked = true
	return members(dec, map[string]func() error{
		"uid": func() error { return dec.Decode(&r.uid) },
		"desiredAPIVersion": func() error {
			r.hasDesired = true
			return dec.Decode(&r.desired)
		},
		"objects": func() error { return r.readObjects(dec) },
	})
}

func (r *review) readObjects(dec *json.Decoder) error {
	if !r.hasDesired {
		return errors.New("objects must come after desiredAPIVersion")
	}
	token, err := dec.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return errors.New("objects is not a list")
	}
	for i := 0; dec.More(); i++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if r.failure == nil {
			r.failure = r.convert(i, raw)
		}
	}
	_, err = dec.Token()
	return err
}

// convert converts the object with index i. It limits the number of concurrent conversions, because each needs
// several times the memory of its object.
func (r *review) convert(i int, raw json.RawMessage) error {
	r.converting <- struct{}{}
	defer func() { <-r.converting }()
	converted, err := conversion.ConvertAt(i, raw, r.desired)
	if err != nil {
		r.converted = nil
		return err
	}
	r.converted = append(r.converted, converted)
	return nil
}

// write writes the response, one object at a time.
func (r *review) write(w io.Writer) error {
	result := metav1.Status{Status: metav1.StatusSuccess}
	if r.failure != nil {
		result = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonBadRequest, Message: r.failure.Error()}
	}
	head, err := json.Marshal(map[string]any{"uid": r.uid, "result": result})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"kind":"ConversionReview","apiVersion":%q,"response":%s,"convertedObjects":[`,
		apiextensionsv1.SchemeGroupVersion, strings.TrimSuffix(string(head), "}"))
	for i, object := range r.converted {
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

// members reads the members of a JSON object in order. known maps the name of a member to the function that
// reads its value. members skips other members. It fails if a known member appears twice, or if a name differs
// from a known name only in case. It accepts null as an empty object.
func members(dec *json.Decoder, known map[string]func() error) error {
	token, err := dec.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('{') {
		return fmt.Errorf("expected a JSON object, not %v", token)
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder returns every name as a string
		read, found := known[name]
		if seen[name] && found {
			return fmt.Errorf("duplicate field %q", name)
		}
		for other := range known {
			if !found && strings.EqualFold(name, other) {
				return fmt.Errorf("unexpected field %q: its name must be %q", name, other)
			}
		}
		if !found {
			read = func() error { return dec.Decode(new(json.RawMessage)) }
		}
		seen[name] = found
		if err := read(); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

var errValue = fmt.Errorf("a value of the request has more than %d bytes", maxValue)

// ahead is the body of a request. It limits the bytes that a decoder has read but not decoded, because the
// decoder keeps them in memory.
type ahead struct {
	body   io.Reader
	at     func() int64
	read   int64
	failed error
}

// Read implements io.Reader.
func (a *ahead) Read(p []byte) (int, error) {
	if a.read-a.at() > maxValue {
		a.failed = errValue
		return 0, a.failed
	}
	n, err := a.body.Read(p)
	a.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		a.failed = err
	}
	return n, err
}
