package lenient

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/controller"
)

const mark = controller.UnreadableAnnotation

// ReasonUnreadable is the reason of the condition Stalled of an object that cannot be decoded.
const ReasonUnreadable = "Unreadable"

// lenient decodes data that the strict decoder rejected with the error refused, or that may be slow to
// decode. In the second case, refused is nil. lenient fails only if data is not an object of a known type.
func (d *decoder) lenient(data []byte, defaults *schema.GroupVersionKind, into runtime.Object, refused error) (runtime.Object, *schema.GroupVersionKind, error) {
	fail := func(err error) (runtime.Object, *schema.GroupVersionKind, error) {
		if refused == nil {
			refused = err
		}
		return nil, nil, refused
	}
	parts, t, err := d.take(data, defaults, into)
	if err != nil {
		return fail(err)
	}
	p := &pruner{}
	left, ok := p.object(data, fieldsOf(t), nil, "")
	if refused == nil && p.count == 0 {
		left = data // all values can be decoded
	}
	reset(into)
	obj, kind, err := d.strict.Decode(left, defaults, into)
	identity := !ok || err != nil
	if identity {
		if refused == nil {
			refused = err
		}
		reset(into)
		if obj, kind, err = d.strict.Decode(parts.identity(t), defaults, into); err != nil {
			return fail(err)
		}
	}
	unmark(obj)
	if !identity && p.count == 0 && refused == nil {
		return obj, kind, nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return fail(err)
	}
	why := &controller.Unreadable{Reason: ReasonUnreadable, Message: p.message(refused), Identity: identity}
	return obj, kind, why.Mark(accessor)
}

// parts has the fields of an object that are cached even if its spec is not.
type parts struct {
	APIVersion string          `json:"apiVersion,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Status     json.RawMessage `json:"status,omitempty"`
}

// take returns the parts of an object, and its Go type.
func (d *decoder) take(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (*parts, reflect.Type, error) {
	p := &parts{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, nil, fmt.Errorf("decoding an object: %w", err)
	}
	if into != nil {
		return p, reflect.TypeOf(into).Elem(), nil
	}
	kind := schema.FromAPIVersionAndKind(p.APIVersion, p.Kind)
	if kind.Empty() && defaults != nil {
		kind = *defaults
	}
	obj, err := d.scheme.New(kind)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding an object: %w", err)
	}
	return p, reflect.TypeOf(obj).Elem(), nil
}

// identity returns the object as JSON, without its spec and without values that t cannot hold.
func (p *parts) identity(t reflect.Type) []byte {
	fields, left := fieldsOf(t), *p
	for name, part := range map[string]*json.RawMessage{"metadata": &left.Metadata, "status": &left.Status} {
		if *part == nil || fields[name] == nil {
			continue
		}
		if pruned, ok := (&pruner{}).prune(*part, fields[name], name); ok {
			*part = pruned
		} else {
			*part = nil
		}
	}
	data, err := json.Marshal(left)
	if err != nil {
		return nil // decoding nil fails
	}
	return data
}

// message returns the message for the status of the object. refused is the error of the strict decoder. It may be nil
// if p has removed a value.
func (p *pruner) message(refused error) string {
	switch {
	case p.count > 1:
		return messageFields.With(p.first, p.count-1)
	case p.count == 1:
		return messageField.With(p.first)
	default:
		return messageRefused.With(cut(refused.Error(), maxPath))
	}
}
