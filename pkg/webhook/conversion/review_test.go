package conversion

import (
	"testing"
)

func TestConvertAtErrorNamesObject(t *testing.T) {
	for name, tt := range map[string]struct {
		raw  []byte
		want string
	}{
		"by its name": {
			document("v1alpha1", "", `{"command":5}`, ""), "objects[1] (At b/a): json: cannot unmarshal number into " +
				"Go struct field AtSpec.spec.command of type string",
		},
		"by its place if it has no name": {nil, "objects[1]: the object is not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ConvertAt(1, tt.raw, versionV1); err == nil || err.Error() != tt.want {
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
		})
	}
}
