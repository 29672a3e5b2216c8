//go:build integration

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/pkg/plan"
)

// planned returns the planned writes of the operator to the objects in a namespace, as texts that can be compared with
// the result of written.
func planned(t *testing.T, all []plan.Write, namespace string) (texts []string) {
	t.Helper()
	for _, w := range all {
		if w.Writer == "" || w.Writer == plan.GarbageCollector || w.Namespace != namespace &&
			(w.Namespace != "" || w.Name != namespace) {
			continue
		}
		code := 200
		if w.Err != nil {
			code = 0
			if status := apierrors.APIStatus(nil); errors.As(w.Err, &status) {
				code = int(status.Status().Code)
			}
			t.Logf("%s %s %s is rejected: %v", w.Verb, w.Resource.Resource, w.Name, w.Err)
		}
		texts = append(texts, text(t, w.Verb, w.Resource.Resource, w.Subresource, w.Name, w.Body, code))
	}
	return texts
}

// written returns the writes of the operator as texts that can be compared with the result of planned.
func written(t *testing.T, all []write) (texts []string) {
	t.Helper()
	for _, w := range all {
		name := w.Name
		if name == "" {
			var obj struct{ Metadata struct{ Name string } }
			if err := json.Unmarshal(w.body, &obj); err != nil {
				t.Fatal(err)
			}
			name = obj.Metadata.Name
		}
		body := w.body
		if w.verb == "delete" {
			body = nil
		}
		texts = append(texts, text(t, w.verb, w.Resource.Resource, w.Subresource, name, body, w.code))
	}
	return texts
}

func text(t *testing.T, verb, resource, subresource, name string, body []byte, code int) string {
	t.Helper()
	if subresource != "" {
		resource += "/" + subresource
	}
	if code < 300 {
		code = 200
	}
	line := fmt.Sprintf("%s %s %s: %d\n", verb, resource, name, code)
	if len(body) == 0 {
		return line
	}
	var fields any
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatalf("%s%s: %v", line, body, err)
	}
	out, err := yaml.Marshal(normal("", fields))
	if err != nil {
		t.Fatal(err)
	}
	return line + string(out)
}

// varying matches the parts of texts that differ between the planned and the real writes: UIDs, times, and digests of
// passwords.
var varying = regexp.MustCompile(
	`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|[0-9a-f]{16,}`)

// randomKeys are the keys of Secrets whose values are new in each plan, besides the passwords of roles. A request of a
// base backup is its time.
var randomKeys = []string{
	"password", "uri", "pgpass", "jdbc-uri", "revision", "request", "ca.crt", "ca.key", "tls.crt", "tls.key",
}

// normal returns a value without versions, passwords and the varying parts of texts.
func normal(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		clean := map[string]any{}
		for field, v := range value {
			if name == "metadata" && (field == "resourceVersion" || field == "creationTimestamp" || field == "managedFields") {
				continue
			}
			if (name == "data" || name == "stringData") &&
				(slices.Contains(randomKeys, field) || strings.HasSuffix(field, ".password")) {
				v = "RANDOM"
			}
			if field == "externalID" {
				v = "OID"
			}
			clean[field] = normal(field, v)
		}
		return clean
	case []any:
		clean := make([]any, 0, len(value))
		for _, v := range value {
			clean = append(clean, normal("", v))
		}
		return clean
	case string:
		return strings.TrimSpace(varying.ReplaceAllString(value, "VARIES"))
	}
	return value
}
