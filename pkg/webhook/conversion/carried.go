package conversion

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/validation"

	"windlass.dev/windlass/pkg/apis/cnat"
	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/cache/lenient"
)

// Annotation is the annotation in which an At of v1alpha1 carries the fields of v1 that v1alpha1 does not
// have, as JSON. It is absent if there are no such fields. An At of v1 has this annotation only if a user has
// added it. The conversion keeps the value of the user.
const Annotation = cnat.GroupName + "/v1"

// carried is the content of the annotation.
type carried struct {
	// Spec is the spec of v1 without schedule. It has command and args only if they cannot be restored from
	// the command of v1alpha1 alone.
	Spec object `json:"spec,omitempty"`
	// Annotation is the value that a user has given this annotation in v1. Nil means that v1 does not have the annotation.
	Annotation *string `json:"annotation,omitempty"`
	// TooLarge replaces all other fields if they do not fit into an annotation, or could not be restored
	// from it. Clients can read an At with TooLarge as v1alpha1, but can change or delete it only as v1: a
	// change or deletion as v1alpha1 requires a conversion to v1, which fails.
	TooLarge bool `json:"tooLarge,omitempty"`
}

// says reports whether c has anything to carry.
func (c carried) says() bool {
	return len(c.Spec) > 0 || c.Annotation != nil || c.TooLarge
}

// parseCarried parses the value of the annotation. ok is false for a value that carry cannot have written, regardless
// of white space: such an annotation belongs to a user and stays unchanged. ok is also false for a value that would
// make an At unreadable as v1, because the API server does not validate converted objects.
func parseCarried(text string) (c carried, ok bool) {
	var parts object
	if json.Unmarshal([]byte(text), &parts) != nil {
		return carried{}, false
	}
	for name := range parts {
		switch name { // encoding/json would also accept "Spec"
		case "spec", "annotation", "tooLarge":
		default:
			return carried{}, false
		}
	}
	if json.Unmarshal([]byte(text), &c) != nil || lenient.Check[typed[cnatv1.AtSpec, any]]([]byte(text)) != nil {
		return carried{}, false
	}
	if !c.says() || !c.belongs() {
		return carried{}, false
	}
	return c, true
}

// belongs reports whether carry could have written every part of c.
func (c carried) belongs() bool {
	if _, schedule := c.Spec["schedule"]; schedule {
		return false
	}
	if line, err := lineOf(c.Spec); err != nil || line.exact {
		return false
	}
	rest := len(c.Spec) > 0
	if c.TooLarge {
		return !rest && c.Annotation == nil
	}
	if rest || c.Annotation == nil {
		return true
	}
	_, nested := parseCarried(*c.Annotation)
	return nested
}

// carry writes c into the annotation. If a user has added this annotation to the At of v1, c also carries the value of
// the user in two cases: if c has anything else to carry, or if the conversion back to v1 would mistake the value for
// content of carry.
func (a *at) carry(c carried) error {
	if old, taken := a.annotations[Annotation]; taken {
		if _, ours := parseCarried(old); ours || c.says() {
			c.Annotation = &old
		}
	}
	if !c.says() && a.readable {
		return nil
	}
	if a.readable && a.annotate(c) == nil {
		return nil
	}
	if a.annotate(carried{TooLarge: true}) == nil {
		return nil
	}
	// One At must not make the conversion of a list fail. No annotation is lost, since this At cannot be written as
	// v1alpha1.
	a.annotations = nil
	return a.annotate(carried{TooLarge: true})
}

// annotate writes c into the annotation. It fails if the annotations exceed the size that the API server admits.
func (a *at) annotate(c carried) error {
	text, err := encode(c)
	if err != nil {
		return err
	}
	if a.annotations == nil {
		a.annotations = map[string]string{}
	}
	a.annotations[Annotation] = string(text)
	return validation.ValidateAnnotationsSize(a.annotations)
}

// unpack returns the content of the annotation, and restores the annotation that the At has in v1. It does not
// change an annotation that parseCarried rejects.
func (a *at) unpack() carried {
	c, ok := parseCarried(a.annotations[Annotation])
	switch {
	case !ok:
	case c.Annotation != nil:
		a.annotations[Annotation] = *c.Annotation
	default:
		delete(a.annotations, Annotation)
	}
	return c
}
