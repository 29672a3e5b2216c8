package children

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// isAsWanted reports whether live is in the desired state, without the cost of a merge. It also returns
// false if only a merge can decide that.
func (t *Type[T]) isAsWanted(w desiredState[T], live T) bool {
	if t.Custom || live.GetAnnotations()[RecordAnnotation] != w.record {
		return false
	}
	is, wanted := reflect.ValueOf(live).Elem(), reflect.ValueOf(w.object).Elem()
	for _, p := range shapeOf(wanted.Type()).parts {
		isPart, wantedPart := is.Field(p.index), wanted.Field(p.index)
		switch {
		case p.name == "status":
		case slices.Contains(t.whole(), p.name):
			if !covers(p.name, isPart, wantedPart) || !covers(p.name, wantedPart, isPart) {
				return false
			}
		case !p.isCovered("", isPart, wantedPart):
			return false
		}
	}
	return true
}

// part is a field of a struct as encoding/json sees it.
type part struct {
	index int
	// name is empty for an embedded field.
	name                string
	omitEmpty, omitZero bool
}

// shape describes how a struct is marshaled: by its own method, as quantities and times are, or field by
// field.
type shape struct {
	byItself bool
	parts    []part
}

// shapes caches the shape of each type, so that tags are parsed once.
var shapes sync.Map

func shapeOf(t reflect.Type) shape {
	if known, ok := shapes.Load(t); ok {
		return known.(shape)
	}
	s := shape{byItself: reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && !field.Anonymous {
			name = field.Name
		}
		s.parts = append(s.parts, part{i, name, has("omitempty"), has("omitzero")})
	}
	shapes.Store(t, s)
	return s
}

// isOmitted reports whether encoding/json omits the field if it has this value.
func (p part) isOmitted(value reflect.Value) bool {
	if p.omitZero && value.IsZero() {
		return true
	}
	if !p.omitEmpty {
		return false
	}
	switch value.Kind() {
	case reflect.Struct:
		return false
	case reflect.Map, reflect.Slice:
		return value.Len() == 0
	default:
		return value.IsZero()
	}
}

// isCovered reports whether the observed field has everything that is desired. An observed but undesired
// member of a union is not covered, because it has to be removed. holder is the same as in covers.
func (p part) isCovered(holder string, is, wanted reflect.Value) bool {
	if p.isOmitted(wanted) {
		return p.isOmitted(is) || !slices.Contains(unions[holder], p.name)
	}
	if p.name == "" {
		return covers(holder, is, wanted)
	}
	return !p.isOmitted(is) && covers(p.name, is, wanted)
}

// covers reports whether the observed value has everything that is desired. Unlike includes, it compares
// Go values: the quantities 1Gi and 1024Mi are equal. holder is the name of the field that has the value,
// or that has the list with the value.
func covers(holder string, is, wanted reflect.Value) bool {
	switch wanted.Kind() {
	case reflect.Pointer:
		if is.IsNil() || wanted.IsNil() {
			return is.IsNil() && wanted.IsNil()
		}
		return covers(holder, is.Elem(), wanted.Elem())
	case reflect.Struct:
		s := shapeOf(wanted.Type())
		if s.byItself {
			return equality.Semantic.DeepEqual(is.Interface(), wanted.Interface())
		}
		return !slices.ContainsFunc(s.parts, func(p part) bool {
			return !p.isCovered(holder, is.Field(p.index), wanted.Field(p.index))
		})
	case reflect.Slice:
		if is.IsNil() != wanted.IsNil() || is.Len() != wanted.Len() {
			return false
		}
		for i := range wanted.Len() {
			if !covers(holder, is.Index(i), wanted.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		for each := wanted.MapRange(); each.Next(); {
			if value := is.MapIndex(each.Key()); !value.IsValid() || !covers(holder, value, each.Value()) {
				return false
			}
		}
		return is.IsNil() == wanted.IsNil()
	default:
		return is.Comparable() && wanted.Comparable() && is.Equal(wanted)
	}
}
