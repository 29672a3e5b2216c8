package lenient

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

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
		if obj, kind, err = d.strict.Decode(parts.identity(t, data), defaults, into); err != nil {
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

// scope is the part of a spec that says which namespace a cluster-scoped object belongs to, and so which shard of the operator.
type scope struct {
	Namespace string `json:"namespace,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. It accepts any value, because the spec may violate its schema.
func (s *scope) UnmarshalJSON(data []byte) error {
	var spec struct {
		Namespace any `json:"namespace"`
	}
	if json.Unmarshal(data, &spec) != nil {
		return nil
	}
	if name, ok := spec.Namespace.(string); ok && len(name) <= validation.DNS1123LabelMaxLength {
		s.Namespace = name
	}
	return nil
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

// identity returns the object as JSON, without values that t cannot hold, and without its spec except for the field namespace. data is
// the whole object.
func (p *parts) identity(t reflect.Type, data []byte) []byte {
	fields, left := fieldsOf(t), *p
	var whole struct {
		Spec scope `json:"spec"`
	}
	if spec := fields["spec"]; spec == nil || spec.Kind() != reflect.Struct || fieldsOf(spec)["namespace"] == nil || json.Unmarshal(data, &whole) != nil {
		whole.Spec = scope{}
	}
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
	kept, err := json.Marshal(struct {
		parts
		Spec scope `json:"spec,omitzero"`
	}{left, whole.Spec})
	if err != nil {
		return nil // decoding nil fails
	}
	return kept
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
