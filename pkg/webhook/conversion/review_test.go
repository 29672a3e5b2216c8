package conversion

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

func request(desired string, objects ...[]byte) *apiextensionsv1.ConversionRequest {
	request := &apiextensionsv1.ConversionRequest{UID: "u", DesiredAPIVersion: desired}
	for _, raw := range objects {
		request.Objects = append(request.Objects, runtime.RawExtension{Raw: raw})
	}
	return request
}

func TestReviewKeepsOrderAndNumber(t *testing.T) {
	var objects [][]byte
	for i := range 50 {
		version := []string{"v1", "v1alpha1"}[i%2]
		spec := []string{`{"schedule":"%d","command":["ls"]}`, `{"schedule":"%d","command":"ls"}`}[i%2]
		objects = append(objects, document(version, "", fmt.Sprintf(spec, i), ""))
	}
	response := Review(request(versionV1, objects...))
	if response.UID != "u" || response.Result.Status != metav1.StatusSuccess || len(response.ConvertedObjects) != 50 {
		t.Fatalf("got %d objects, %+v", len(response.ConvertedObjects), response.Result)
	}
	for i, o := range response.ConvertedObjects {
		at := mustUnmarshal[cnatv1.At](t, o.Raw)
		if at.APIVersion != versionV1 || at.Spec.Schedule != fmt.Sprint(i) {
			t.Errorf("objects[%d] is %s", i, o.Raw)
		}
	}
}

func TestReviewAnswers(t *testing.T) {
	good := document("v1alpha1", "", `{"command":"ls"}`, "")
	bad := document("v1alpha1", "", `{"command":5}`, "")
	tests := []struct {
		name    string
		request *apiextensionsv1.ConversionRequest
		message string // empty: success
	}{
		{"no objects are converted to none", request(versionV1), ""},
		{"one bad object fails all, and is named", request(versionV1, good, bad),
			"objects[1] (At b/a): json: cannot unmarshal number into Go struct field AtSpec.spec.command of type string"},
		{"an object that has no name is told by its place", request(versionV1, good, nil),
			"objects[1]: it is not a JSON object"},
		{"an unknown version is refused even without objects", request("v2"),
			`desired apiVersion "v2" is neither cnat.programming-kubernetes.info/v1 nor cnat.programming-kubernetes.info/v1alpha1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := Review(tt.request)
			if response.Result.Message != tt.message {
				t.Errorf("message %q, want %q", response.Result.Message, tt.message)
			}
			want := metav1.StatusSuccess
			if tt.message != "" {
				want = metav1.StatusFailure
			}
			if response.Result.Status != want || response.UID != tt.request.UID {
				t.Errorf("got %+v for UID %s, want %s", response.Result, response.UID, want)
			}
			if len(response.ConvertedObjects) != 0 {
				t.Errorf("%d objects are returned", len(response.ConvertedObjects))
			}
		})
	}
}
