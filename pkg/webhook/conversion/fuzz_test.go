package conversion

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	cnatv1alpha1 "windlass.dev/windlass/pkg/apis/cnat/v1alpha1"
)

// FuzzV1RoundTrip checks that v1 → v1alpha1 → v1 returns the same object, and that an edit of the v1alpha1
// object changes nothing but the edited fields.
func FuzzV1RoundTrip(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), "2026-02-10T20:30:00Z", "echo edited")
	}
	f.Fuzz(func(t *testing.T, data []byte, schedule, command string) {
		before := fillV1(data)
		raw := mustMarshal(t, before)
		old := mustConvert(t, raw, versionV1alpha1)
		checkSame[cnatv1.At](t, raw, mustConvert(t, old, versionV1))

		edited, want := mustUnmarshal[cnatv1alpha1.At](t, old), before
		edited.Spec.Schedule, want.Spec.Schedule = schedule, schedule
		edited.Status.Phase, want.Status.Phase = cnatv1alpha1.PhaseDone, cnatv1.AtDone
		if command = strings.ToValidUTF8(command, ""); edited.Spec.Command != command {
			edited.Spec.Command = command
			want.Spec.Command, want.Spec.Args = []string{"/bin/sh", "-c", command}, nil
		}
		checkSame[cnatv1.At](t, mustMarshal(t, want), mustConvert(t, mustMarshal(t, edited), versionV1))
	})
}

// FuzzV1alpha1RoundTrip checks that v1alpha1 → v1 → v1alpha1 returns the same object for any annotation.
func FuzzV1alpha1RoundTrip(f *testing.F) {
	for i, seed := range seeds {
		for _, text := range append(slices.Clone(foreign), annotationOf(f, fillV1([]byte(seed)))) {
			f.Add([]byte(seed), text, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, text string, annotated bool) {
		at := fillV1alpha1(data)
		if annotated {
			metav1.SetMetaDataAnnotation(&at.ObjectMeta, Annotation, strings.ToValidUTF8(text, ""))
		}
		raw := mustMarshal(t, at)
		converted, err := Convert(raw, versionV1)
		if errors.Is(err, errTooLarge) {
			return // a rejected conversion loses nothing
		}
		if err != nil {
			t.Fatalf("converting to v1: %v\n%s", err, raw)
		}
		normalize(t, at)
		checkSame[cnatv1alpha1.At](t, mustMarshal(t, at), mustConvert(t, converted, versionV1alpha1))
	})
}

// normalize changes an At as the round trip does: it removes unnecessary white space from the annotation, and a
// carried command that does not match spec.command.
func normalize(t *testing.T, at *cnatv1alpha1.At) {
	c, ours := parseCarried(at.Annotations[Annotation])
	if !ours {
		return
	}
	if line, _ := lineOf(c.Spec); line.found && line.text != at.Spec.Command {
		c.Spec.take("command", "args")
	}
	delete(at.Annotations, Annotation)
	if c.Annotation != nil && len(c.Spec) == 0 {
		if _, nested := parseCarried(*c.Annotation); !nested {
			at.Annotations[Annotation] = *c.Annotation
			return
		}
	}
	if c.says() {
		text, err := encode(c)
		if err != nil {
			t.Fatalf("encoding the annotation: %v", err)
		}
		at.Annotations[Annotation] = string(text)
	}
}
