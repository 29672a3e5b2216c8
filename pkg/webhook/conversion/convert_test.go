package conversion

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// foreign lists values of the annotation that the conversion never writes. Some are similar to values that it writes.
var foreign = []string{
	"", "not JSON", "null", "[]", "{}", `"spec"`, `{"spec":{}}`, `{"spec":[]}`, `{"status":7}`,
	`{"spec":{"image":"a"}} and more`,
	`{"Spec":{"image":"a"}}`,
	`{"spec":{"image":"a"},"unknown":1}`,
	`{"spec":{"image":5}}`,
	`{"spec":{"resources":{"limits":{"cpu":"much"}}}}`,
	`{"spec":{"resources":{"limits":{"cpu":"1e5.5"}}}}`,
	`{"spec":{"resources":{"limits":{"cpu":"1e-100000000"}}}}`,
	`{"status":{"startTime":"yesterday"}}`,
	`{"spec":{"schedule":"2026-02-10T20:30:00Z"}}`,
	`{"status":{"phase":"Done"}}`,
	`{"spec":{"command":"a line"}}`,
	`{"spec":{"command":["/bin/sh","-c","ls"]}}`,
	`{"annotation":"not JSON"}`,
	`{"annotation":"{\"annotation\":\"not JSON\"}"}`,
	`{"tooLarge":true,"spec":{"image":"a"}}`,
	`{"tooLarge":false}`,
}

// document returns an At with an unknown field in its metadata.
func document(version, annotations, spec, status string) []byte {
	if annotations != "" {
		annotations = fmt.Sprintf(`"annotations":{%s},`, annotations)
	}
	if status != "" {
		status = `,"status":` + status
	}
	return fmt.Appendf(nil, `{"apiVersion":"cnat.programming-kubernetes.info/%s","kind":"At",`+
		`"metadata":{%s"name":"a","namespace":"b","future":{"big":12345678901234567890}},"spec":%s%s}`,
		version, annotations, spec, status)
}

func carrying(json string) string { return fmt.Sprintf("%q:%q", Annotation, json) }

func TestConvertBothWays(t *testing.T) {
	tests := []struct {
		name               string
		oldAnnotations     string
		oldSpec, oldStatus string
		newAnnotations     string
		newSpec, newStatus string
	}{
		{
			name:    "a line is run by a shell",
			oldSpec: `{"schedule":"2026-02-10T20:30:00Z","command":"echo Hello > /dev/null && true"}`,
			newSpec: `{"schedule":"2026-02-10T20:30:00Z","command":["/bin/sh","-c","echo Hello > /dev/null && true"]}`,
		},
		{
			name:      "a phase is spelled as its version spells it",
			oldSpec:   `{"command":"ls"}`,
			oldStatus: `{"phase":"RUNNING"}`,
			newSpec:   `{"command":["/bin/sh","-c","ls"]}`,
			newStatus: `{"phase":"Running"}`,
		},
		{
			name:      "an unknown phase stays as it is",
			oldSpec:   `{}`,
			oldStatus: `{"phase":"ASLEEP"}`,
			newSpec:   `{}`,
			newStatus: `{"phase":"ASLEEP"}`,
		},
		{
			name:      "a status without a phase stays a status",
			oldSpec:   `{}`,
			oldStatus: `{}`,
			newSpec:   `{}`,
			newStatus: `{}`,
		},
		{
			name:           "other annotations stay",
			oldAnnotations: `"x":"y"`,
			oldSpec:        `{}`,
			newAnnotations: `"x":"y"`,
			newSpec:        `{}`,
		},
		{
			name:           "a command that is no line is quoted, and carried as it is",
			oldAnnotations: carrying(`{"spec":{"args":["it's"],"command":["echo","two words"]}}`),
			oldSpec:        `{"command":"echo 'two words' 'it'\\''s'"}`,
			newSpec:        `{"command":["echo","two words"],"args":["it's"]}`,
		},
		{
			name:           "a shell with args is no line",
			oldAnnotations: carrying(`{"spec":{"args":["x"],"command":["/bin/sh","-c","echo $0"]}}`),
			oldSpec:        `{"command":"/bin/sh -c 'echo $0' x"}`,
			newSpec:        `{"command":["/bin/sh","-c","echo $0"],"args":["x"]}`,
		},
		{
			name:           "the rest of the spec is carried, and that of the status stays",
			oldAnnotations: carrying(`{"spec":{"image":"busybox","suspend":true}}`),
			oldSpec:        `{"schedule":"2026-02-10T20:30:00Z","command":"ls"}`,
			oldStatus:      `{"phase":"DONE","exitCode":0,"podName":"a-pod"}`,
			newSpec: `{"schedule":"2026-02-10T20:30:00Z","command":["/bin/sh","-c","ls"],"image":"busybox",` +
				`"suspend":true}`,
			newStatus: `{"phase":"Done","exitCode":0,"podName":"a-pod"}`,
		},
		{
			name:           "fields of a newer schema are carried to the last digit",
			oldAnnotations: carrying(`{"spec":{"newer":[{"a":0.10,"b":12345678901234567890}]}}`),
			oldSpec:        `{"command":"ls"}`,
			newSpec:        `{"command":["/bin/sh","-c","ls"],"newer":[{"a":0.10,"b":12345678901234567890}]}`,
		},
		{
			name:           "a foreign annotation makes room where there is something to carry",
			oldAnnotations: carrying(`{"spec":{"image":"busybox"},"annotation":"not JSON"}`),
			oldSpec:        `{"command":"ls"}`,
			newAnnotations: carrying(`not JSON`),
			newSpec:        `{"command":["/bin/sh","-c","ls"],"image":"busybox"}`,
		},
		{
			name:           "an annotation that v1 bears by chance is not taken for ours on the way back",
			oldAnnotations: carrying(`{"annotation":"{\"spec\":{\"image\":\"busybox\"}}"}`),
			oldSpec:        `{"command":"ls"}`,
			newAnnotations: carrying(`{"spec":{"image":"busybox"}}`),
			newSpec:        `{"command":["/bin/sh","-c","ls"]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := document("v1alpha1", tt.oldAnnotations, tt.oldSpec, tt.oldStatus)
			after := document("v1", tt.newAnnotations, tt.newSpec, tt.newStatus)
			checkJSON(t, after, mustConvert(t, before, versionV1))
			checkJSON(t, before, mustConvert(t, after, versionV1alpha1))
		})
	}
}

func TestConvertKeepsForeignAnnotations(t *testing.T) {
	for _, text := range foreign {
		t.Run(text, func(t *testing.T) {
			before := document("v1alpha1", carrying(text), `{"command":"ls"}`, `{}`)
			after := document("v1", carrying(text), `{"command":["/bin/sh","-c","ls"]}`, `{}`)
			checkJSON(t, after, mustConvert(t, before, versionV1))
			checkJSON(t, before, mustConvert(t, after, versionV1alpha1))
		})
	}
}

func TestConvertPrefersEditedFields(t *testing.T) {
	annotation := carrying(`{"spec":{"args":["x"],"command":["echo"],"image":"busybox"}}`)
	for name, tt := range map[string]struct{ spec, want string }{
		"nothing edited: all is restored": {
			spec: `{"schedule":"2026-02-10T20:30:00Z","command":"echo x"}`,
			want: `{"schedule":"2026-02-10T20:30:00Z","command":["echo"],"args":["x"],"image":"busybox"}`,
		},
		"an edited schedule replaces the schedule alone": {
			spec: `{"schedule":"2027-01-01T00:00:00Z","command":"echo x"}`,
			want: `{"schedule":"2027-01-01T00:00:00Z","command":["echo"],"args":["x"],"image":"busybox"}`,
		},
		"an edited command replaces command and args": {
			spec: `{"schedule":"2026-02-10T20:30:00Z","command":"echo y"}`,
			want: `{"schedule":"2026-02-10T20:30:00Z","command":["/bin/sh","-c","echo y"],"image":"busybox"}`,
		},
		"a command that was taken away is not restored": {
			spec: `{"schedule":"2026-02-10T20:30:00Z"}`,
			want: `{"schedule":"2026-02-10T20:30:00Z","image":"busybox"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustConvert(t, document("v1alpha1", annotation, tt.spec, ""), versionV1)
			checkJSON(t, document("v1", "", tt.want, ""), got)
		})
	}
}

func TestConvertOfUnstorableAtIsReadOnly(t *testing.T) {
	for name, at := range map[string]struct{ annotations, spec, old string }{
		"fields that do not fit into an annotation": {
			"", fmt.Sprintf(`{"command":["/bin/sh","-c","ls"],"image":%q}`, strings.Repeat("a", 256<<10)), `{"command":"ls"}`,
		},
		"a field of another type": {"", `{"command":["/bin/sh","-c","ls"],"image":5}`, `{"command":"ls"}`},
		"a quantity that Go does not take": {
			"", `{"command":["/bin/sh","-c","ls"],"resources":{"limits":{"cpu":"1e5.5"}}}`, `{"command":"ls"}`,
		},
		"a quantity that takes a minute to parse": {"", `{"resources":{"limits":{"cpu":"1e-100000000"}}}`, `{}`},
		"annotations that leave no room for a mark": {
			fmt.Sprintf(`"a":%q`, strings.Repeat("a", 256<<10-1)), `{"image":"a"}`, `{}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := mustConvert(t, document("v1", at.annotations, at.spec, ""), versionV1alpha1)
			checkJSON(t, document("v1alpha1", carrying(`{"tooLarge":true}`), at.old, ""), old)
			if _, err := Convert(old, versionV1); !errors.Is(err, errTooLarge) {
				t.Errorf("converting it back: %v, want %v", err, errTooLarge)
			}
		})
	}
}

func TestConvertKeepsAtOfDesiredVersion(t *testing.T) {
	raw := document("v1", carrying(`{"spec":{"image":"busybox"}}`), `{ "command": "not even a list" }`, "")
	if got := mustConvert(t, raw, versionV1); string(got) != string(raw) {
		t.Errorf("got %s, want %s", got, raw)
	}
}

func TestConvertRejectsInvalidInput(t *testing.T) {
	at := document("v1alpha1", "", `{}`, "")
	tests := []struct {
		name, raw, desired, want string
	}{
		{"nothing", ``, versionV1, "the object is not a JSON object"},
		{"an empty object", `{}`, versionV1, `apiVersion "" is neither`},
		{"an unknown version", `{"apiVersion":"cnat.programming-kubernetes.info/v2","kind":"At"}`, versionV1, "v2"},
		{"an unknown desired version", string(at), "cnat.programming-kubernetes.info/v2", "desiredAPIVersion"},
		{
			"another kind", `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"AtList"}`, versionV1alpha1,
			`kind "AtList" is not At`,
		},
		{
			"no metadata", `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At"}`, versionV1alpha1,
			"the object has no metadata",
		},
		{
			"annotations that are no strings", string(document("v1", `"a":1`, `{}`, "")), versionV1alpha1,
			"metadata.annotations",
		},
		{"a spec that is no object", string(document("v1", "", `[]`, "")), versionV1alpha1, "spec"},
		{"a status that is no object", string(document("v1", "", `{}`, `"x"`)), versionV1alpha1, "status"},
		{"a list of words in v1alpha1", string(document("v1alpha1", "", `{"command":["a"]}`, "")), versionV1, "command"},
		{"a line in v1", string(document("v1", "", `{"command":"a"}`, "")), versionV1alpha1, "command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Convert([]byte(tt.raw), tt.desired)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s, error %v, want %q", got, err, tt.want)
			}
		})
	}
}
