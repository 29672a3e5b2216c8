package conversion

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/validation"

	"windlass.dev/windlass/pkg/apis/cnat"
	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/cache/lenient"
)

// Annotation is the annotation in which an At of v1alpha1 carries the fields of v1 that v1alpha1 does not
// have, as JSON. It is absent if there are no such fields. An At of v1 does not have it, unless a user has
// added it: then it is kept unchanged.
const Annotation = cnat.GroupName + "/v1"

// carried is the content of the annotation.
type carried struct {
	// Spec is the spec of v1 without schedule. It has command and args only if the line of v1alpha1 alone
	// does not restore them.
	Spec object `json:"spec,omitempty"`
	// Annotation is the annotation of the same name that the At has in v1.
	Annotation *string `json:"annotation,omitempty"`
	// TooLarge replaces all other fields if they do not fit into an annotation, or could not be restored
	// from it. Such an At can be read as v1alpha1, but changed and deleted only as v1, since the API server
	// converts it to v1 for both.
	TooLarge bool `json:"tooLarge,omitempty"`
}

// says reports whether there is anything to carry.
func (c carried) says() bool {
	return len(c.Spec) > 0 || c.Annotation != nil || c.TooLarge
}

// parseCarried reads the annotation. It returns false for a text that carry does not write, in any layout:
// such a text belongs to somebody else and stays unchanged. It also returns false for values that would make
// an At unreadable as v1, since the API server does not validate what a webhook returns.
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

// carry writes c into the annotation. It carries an annotation of the same name in c in two cases: if c needs
// its place, or if the conversion back to v1 would mistake it for ours.
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
	// One At must not fail a list. Nothing is lost, since this At cannot be written as v1alpha1.
	a.annotations = nil
	return a.annotate(carried{TooLarge: true})
}

// annotate writes c into the annotation. It fails if the annotations are larger than the API server admits.
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

// unpack returns the content of the annotation, and restores the annotation of v1. It leaves an annotation
// that parseCarried rejects unchanged.
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
