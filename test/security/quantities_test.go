//go:build integration

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/schema"
)

// collection returns the API path of the collection of a kind, for a POST.
func collection(s schema.Version, namespace string) string {
	if s.Namespaced {
		return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", s.Group, s.Name, namespace, s.Plural)
	}
	return fmt.Sprintf("/apis/%s/%s/%s", s.Group, s.Name, s.Plural)
}

// dryRunCreate creates an object in a dry run, and returns the response of the API server.
func dryRunCreate(
	ctx context.Context, t *testing.T, client rest.Interface, s schema.Version, namespace string, object []byte,
) ([]byte, error) {
	t.Helper()
	response, err := client.Post().AbsPath(collection(s, namespace)).Param("dryRun", "All").Param("fieldValidation",
		"Ignore").
		SetHeader("Content-Type", "application/json").Body(object).Do(ctx).Raw()
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) &&
		!apierrors.IsRequestEntityTooLargeError(err) {
		t.Fatalf("creating a %s: %v: %s", s.Kind, err, response)
	}
	return response, err
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSchemaRejectsUndecodableQuantities(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	values := map[any]bool{
		1: true, 1000000: true, "1": true, "100m": true, "1.5Gi": true, "0.1000001": true, ".5": true, "5.": true,
		"1e3": true, "1E3": true,
		"12e-3": true, "+1": true, "64Mi": true, "9223372036854775807": true, "1e99": true,
		"": false, " 1": false, "1 ": false, "1e": false, "1e5.5": false, "1e.5": false, "1e100": false,
		"1e-100": false, "1e+100000000": false,
		"1Kib": false, "0x10": false, "1_000": false, "NaN": false, "Inf": false, "1,5": false, "१": false,
		strings.Repeat("9", 100_000): false, "1." + strings.Repeat("0", 100_000): false, strings.Repeat("0", 100_000): false,
		0.5: false, 1e300: false, true: false,
	}
	// Go takes a minute to parse this value. A validation rule that parses the value would block the API server for the
	// same time.
	values["1e-100000000"] = false
	tenant, paths := shared.NewTenant(t), 0
	for _, s := range schema.Versions(t) {
		client := tenant.Kube.Discovery().RESTClient()
		if !s.Namespaced {
			client = shared.Kube.Discovery().RESTClient()
		}
		for _, f := range s.Fields("spec") {
			if !schema.IsQuantity(f.Schema) {
				continue
			}
			paths++
			for value, valid := range values {
				response, err := dryRunCreate(t.Context(), t, client, s, tenant.Namespace, encoded(t, f.Object("odd", value)))
				if valid != (err == nil) {
					t.Errorf("%s: %#.40v is accepted: %v, want %v: %.500s", f, value, err == nil, valid, response)
				} else if valid {
					decodes(t, f, response)
				}
			}
		}
	}
	if paths < 15 {
		t.Errorf("found only %d quantities in the specs, want at least 15", paths)
	}
}

// decodes checks that a Go client can decode an object that the API server has accepted.
func decodes(t *testing.T, f schema.Field, object []byte) {
	t.Helper()
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(object, nil, nil); err != nil {
		t.Errorf("%s: decoding an accepted object: %.300v\n%.300s", f, err, object)
	}
}

// oddValues returns unusual JSON values for a field. Some of these values are valid.
func oddValues(of schema.Node) []string {
	values := []string{`null`, `[null]`, `{"a":null}`}
	switch {
	case schema.IsQuantity(of):
		return append(values, `-0`, `-0.0`, `1.0`, `1e18`, `1e19`, `9223372036854775807`, `9223372036854775808`,
			`-9223372036854775808`, `"1e5.5"`, `"-1"`, `"1e-99"`, `"1E"`, `"1e"`)
	case schema.IsIntOrString(of):
		return append(values, `-0`, `1.0`, `0`, `-1`, `2147483648`, `"http"`, `"25%"`, `"99999999999999999999%"`, `"%"`, `""`)
	case of["type"] == "integer":
		return append(values, `-0`, `1.0`, `1e0`, `1.5`, `1e400`, `"1"`, `2147483647`, `2147483648`, `4294967297`,
			`-2147483649`, `9007199254740993`,
			`9223372036854775807`, `9223372036854775808`, `1e19`, `1e300`, `-1e19`)
	case of["format"] == "date-time":
		return append(values, `""`, `"2026-02-10T20:30:00Z"`, `"2026-02-10t20:30:00z"`, `"2026-02-10T20:30:00x5Z"`,
			`"2026-02-10T20:30:00,5Z"`,
			`"2026-02-30T20:30:00Z"`, `"2026-02-10T20:30:00.1234567890123Z"`, `"2026-02-10T20:30:00+99:99"`,
			`"2026-02-10T20:30:00+24:00"`, `"2026-02-10T24:00:00Z"`,
			`"2026-02-10T23:59:60Z"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-23:59"`, `"2026-02-10T20:30:00Ztrue"`)
	case of["type"] == "string":
		return append(values, `""`, `"a"`, `"\u0000"`, `"\ud800"`, "\"\xff\"", `"`+strings.Repeat("ä", 2000)+`"`, `1`, `true`)
	case of["type"] == "boolean":
		return append(values, `true`, `"true"`, `0`)
	}
	return append(values, `[]`, `{}`, `[[]]`, `[{}]`, `[{"name":null}]`, `{"":""}`, `{"a":{}}`, `""`, `0`)
}

// TestGoClientDecodesEveryAcceptedObject creates objects with odd values in dry runs. The test tries each schema
// of an API version once: the fields of an App and of the App in a Platform have one schema and one Go type.
func TestGoClientDecodesEveryAcceptedObject(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	tenant, accepted, tried := shared.NewTenant(t), 0, map[string]bool{}
	for _, s := range schema.Versions(t) {
		client := tenant.Kube.Discovery().RESTClient()
		if !s.Namespaced {
			client = shared.Kube.Discovery().RESTClient()
		}
		for _, f := range s.Fields("spec") {
			text := s.Group + s.Name + string(encoded(t, f.Schema))
			if tried[text] {
				continue
			}
			tried[text] = true
			const gap = "the odd value"
			template := string(encoded(t, f.Object("odd", gap)))
			for _, value := range oddValues(f.Schema) {
				object := strings.Replace(template, `"`+gap+`"`, value, 1)
				response, err := dryRunCreate(t.Context(), t, client, s, tenant.Namespace, []byte(object))
				if err == nil {
					accepted++
					decodes(t, f, response)
				}
			}
		}
		accepted += tryStatuses(t, shared, s, tenant.Namespace)
	}
	if accepted < 500 {
		t.Errorf("the API server has accepted only %d objects, want at least 500", accepted)
	}
}

// tryStatuses writes odd values to every field of the status in dry runs. It decodes the accepted objects, and returns
// the number of accepted objects.
func tryStatuses(t *testing.T, on *framework.Installation, s schema.Version, namespace string) (accepted int) {
	t.Helper()
	client := on.Kube.Discovery().RESTClient()
	name := "odd-" + s.Name
	object := s.Smallest(name)
	if s.Kind == "Platform" {
		object["spec"].(schema.Node)["namespace"] = namespace
	}
	path := collection(s, namespace)
	if _, err := client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(encoded(t, object)).
		Do(t.Context()).Raw(); err != nil {
		t.Fatalf("creating a %s: %v", s.Kind, err)
	}
	t.Cleanup(func() {
		if err := client.Delete().AbsPath(path, name).Do(context.Background()).Error(); err != nil {
			t.Errorf("deleting a %s: %v", s.Kind, err)
		}
	})
	for _, f := range s.Fields("status") {
		const gap = "the odd value"
		template := string(encoded(t, f.Status(gap)))
		for _, value := range oddValues(f.Schema) {
			patch := strings.Replace(template, `"`+gap+`"`, value, 1)
			response, err := client.Patch(types.MergePatchType).AbsPath(path, name, "status").Param("dryRun",
				"All").Param("fieldValidation", "Ignore").Body([]byte(patch)).Do(t.Context()).Raw()
			if err == nil {
				accepted++
				decodes(t, f, response)
			}
		}
	}
	return accepted
}
