package conversion

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/validation"

	"windlass.dev/windlass/pkg/apis/cnat"
	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/cache/lenient"
)

// Annotation is where an At of v1alpha1 carries what v1 says beyond it, as JSON.
// It is absent if there is no such thing, and always from an At of v1, unless
// somebody put it there by hand; then it is left as it is.
const Annotation = cnat.GroupName + "/v1"

// carried is the content of the annotation.
type carried struct {
	// Spec is spec without schedule. It has command and args only if the line of
	// v1alpha1 does not already say all about them.
	Spec object `json:"spec,omitempty"`
	// Annotation is the annotation of that name which the At itself bears in v1.
	Annotation *string `json:"annotation,omitempty"`
	// TooLarge stands in place of all else if that does not fit into an
	// annotation, or would not be taken out of it again. Such an At can be read as
	// v1alpha1, but changed and deleted only as v1: the API server converts for both.
	TooLarge bool `json:"tooLarge,omitempty"`
}

// says is whether there is anything to carry.
func (c carried) says() bool {
	return len(c.Spec) > 0 || c.Annotation != nil || c.TooLarge
}

// parseCarried reads the annotation. It is not ok for a text that carry would
// not have written, in other than its layout: such a text is somebody else's,
// and stays where it is. Nothing that would make an At unreadable as v1 gets
// through, since the API server does not validate what a webhook returns.
func parseCarried(text string) (c carried, ok bool) {
	var parts object
	if json.Unmarshal([]byte(text), &parts) != nil {
		return carried{}, false
	}
	for name := range parts {
		switch name { // encoding/json would also take "Spec"
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

// belongs is whether carry could have put each part of c where it is.
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

// carry puts c into the annotation. An annotation that is there already goes
// along in it if it must: to make room, or because it would be taken for ours
// on the way back.
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
	// One At must not fail a list. Nothing is lost: it cannot be written as v1alpha1.
	a.annotations = nil
	return a.annotate(carried{TooLarge: true})
}

// annotate fails if c makes the annotations larger than the API server admits.
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

// unpack takes what the annotation carries out of it. An annotation that cannot
// be read carries nothing, and stays.
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
