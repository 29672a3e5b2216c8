//go:build integration

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// Messages of the API server for rejected values of spec.credentials.
const (
	badRotateEvery = "rotateEvery must be a duration from 1h to 87600h in hours, minutes and seconds, such as " +
		"720h or 36h30m"
	badGracePeriod = "gracePeriod must be a duration from 0s to 168h in hours, minutes and seconds, such as 10m"
	badOrder       = "gracePeriod must be shorter than rotateEvery"
	// unchecked is the text that the API server appends if a value has a wrong type or length, or is not in an enum.
	unchecked = ", <nil>: Invalid value: null: some validation rules were not checked because the object was " +
		"invalid; correct the existing errors to complete validation"
)

// credentialsCases has values of spec.credentials, with words of the expected error. The API server accepts a value
// without words.
var credentialsCases = map[string]struct {
	credentials string
	want        []string
}{
	"no field":                              {`{}`, nil},
	"null":                                  {`null`, nil},
	"the shortest rotateEvery":              {`{"rotateEvery":"1h"}`, nil},
	"the shortest rotateEvery in seconds":   {`{"rotateEvery":"3600s"}`, nil},
	"the longest rotateEvery":               {`{"rotateEvery":"87600h"}`, nil},
	"hours, minutes and seconds":            {`{"rotateEvery":"36h30m15s"}`, nil},
	"the shortest gracePeriod":              {`{"rotateEvery":"1h","gracePeriod":"0s"}`, nil},
	"the longest gracePeriod":               {`{"gracePeriod":"168h"}`, nil},
	"the longest gracePeriod of a schedule": {`{"rotateEvery":"168h1s","gracePeriod":"168h"}`, nil},
	"a gracePeriod one second shorter":      {`{"rotateEvery":"1h","gracePeriod":"59m59s"}`, nil},

	"a rotateEvery one second too short": {
		`{"rotateEvery":"59m59s"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery},
	},
	"a rotateEvery one second too long": {
		`{"rotateEvery":"87600h1s"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery},
	},
	"a rotateEvery of zero": {`{"rotateEvery":"0s"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery}},
	"a negative rotateEvery": {
		`{"rotateEvery":"-720h"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery},
	},
	"a rotateEvery in days": {`{"rotateEvery":"30d"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery}},
	"a rotateEvery with a fraction": {
		`{"rotateEvery":"1.5h"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery},
	},
	"a rotateEvery without a unit": {`{"rotateEvery":"3600"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery}},
	"a word as rotateEvery": {
		`{"rotateEvery":"monthly"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery},
	},
	"an empty rotateEvery": {`{"rotateEvery":""}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery}},
	"a rotateEvery that overflows": {
		`{"rotateEvery":"9999999999999h"}`, []string{"spec.credentials.rotateEvery: ", badRotateEvery},
	},
	"a rotateEvery that is too long": {
		`{"rotateEvery":"00720h00000m00000s0"}`, []string{"spec.credentials.rotateEvery: ", "18"},
	},
	"a number as rotateEvery": {
		`{"rotateEvery":3600}`, []string{"spec.credentials.rotateEvery: ", "must be of type string"},
	},

	"a gracePeriod one second too long": {
		`{"gracePeriod":"168h1s"}`, []string{"spec.credentials.gracePeriod: ", badGracePeriod},
	},
	"a negative gracePeriod":       {`{"gracePeriod":"-1s"}`, []string{"spec.credentials.gracePeriod: ", badGracePeriod}},
	"a gracePeriod without a unit": {`{"gracePeriod":"10"}`, []string{"spec.credentials.gracePeriod: ", badGracePeriod}},
	"a zero without a unit":        {`{"gracePeriod":"0"}`, []string{"spec.credentials.gracePeriod: ", badGracePeriod}},
	"a gracePeriod in milliseconds": {
		`{"gracePeriod":"500ms"}`, []string{"spec.credentials.gracePeriod: ", badGracePeriod},
	},
	"an empty gracePeriod": {`{"gracePeriod":""}`, []string{"spec.credentials.gracePeriod: ", badGracePeriod}},
	"a number as gracePeriod": {
		`{"gracePeriod":0}`, []string{"spec.credentials.gracePeriod: ", "must be of type string"},
	},

	"equal times":              {`{"rotateEvery":"1h","gracePeriod":"60m"}`, []string{"spec.credentials: ", badOrder}},
	"a longer gracePeriod":     {`{"rotateEvery":"24h","gracePeriod":"168h"}`, []string{"spec.credentials: ", badOrder}},
	"two bad values":           {`{"rotateEvery":"1m","gracePeriod":"200h"}`, []string{badRotateEvery, badGracePeriod}},
	"an unknown field":         {`{"rotateAfter":"720h"}`, []string{`unknown field "spec.credentials.rotateAfter"`}},
	"a field in another case":  {`{"rotateevery":"720h"}`, []string{`unknown field "spec.credentials.rotateevery"`}},
	"a policy of the Database": {`{"updatePolicy":"Manual"}`, []string{`unknown field "spec.credentials.updatePolicy"`}},
	"a duration":               {`"720h"`, []string{"spec.credentials: ", "must be of type object"}},
}

func TestRejectedCredentialsNameTheFieldAndSayWhatItNeeds(t *testing.T) {
	t.Parallel()
	client, namespace := dynamicClient(t), shared.NewNamespace(t)
	for kind, required := range map[string]string{
		"Database":         `"version":"17","storage":{"size":"1Gi"}`,
		"ExternalDatabase": `"databaseName":"a","connectionSecretRef":{"name":"a"}`,
	} {
		for name, c := range credentialsCases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				wantAnswer(t, client, namespace, kind, fmt.Sprintf(`{%s,"credentials":%s}`, required, c.credentials), c.want)
			})
		}
	}
	const database = `{"version":"17","storage":{"size":"1Gi"},"updatePolicy":%s}`
	for policy, want := range map[string][]string{
		`"Automatic"`: nil, `"Manual"`: nil, `null`: nil,
		`"manual"`:   {"spec.updatePolicy: ", `supported values: "Automatic", "Manual"`},
		`"OnDelete"`: {"spec.updatePolicy: ", `supported values: "Automatic", "Manual"`},
		`""`:         {"spec.updatePolicy: ", `supported values: "Automatic", "Manual"`},
		`true`:       {"spec.updatePolicy: ", "must be of type string"},
	} {
		t.Run("Database/updatePolicy "+policy, func(t *testing.T) {
			wantAnswer(t, client, namespace, "Database", fmt.Sprintf(database, policy), want)
		})
	}
	wantAnswer(t, client, namespace, "ExternalDatabase",
		`{"databaseName":"a","connectionSecretRef":{"name":"a"},"updatePolicy":"Manual"}`, []string{
			`unknown field "spec.updatePolicy"`,
		})
	for kind, spec := range map[string]string{
		"database":         `"version":"17","storage":{"size":"1Gi"}`,
		"externalDatabase": `"databaseName":"a","connectionSecretRef":{"name":"a"}`,
	} {
		wantAnswer(t, client, namespace, "Platform",
			fmt.Sprintf(`{"namespace":"a","components":[{"name":"a",%q:{%s,"credentials":{"rotateEvery":"1h",`+
				`"gracePeriod":"1h"}}}]}`, kind, spec),
			[]string{"spec.components[0]." + kind + ".credentials: ", badOrder})
	}
}

// wantAnswer fails the test unless the API server rejects a new object with an error that contains all words. If there
// are no words, the API server must accept the object.
func wantAnswer(t *testing.T, client dynamic.Interface, namespace, kind, spec string, words []string) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"windlass.dev/v1alpha1","kind":%q,"metadata":{"name":"answered"},"spec":%s}`,
		kind, spec)
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(manifest)); err != nil {
		t.Fatal(err)
	}
	resource := v1alpha1.SchemeGroupVersion.WithResource(strings.ToLower(kind) + "s")
	if kind == "Platform" {
		namespace = "" // Platforms have none
	}
	_, err := client.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, // as kubectl does
	})
	switch {
	case len(words) > 0:
		if err != nil {
			err = errors.New(strings.Replace(err.Error(), unchecked, "", 1))
		}
		wantRejection(t, err, words...)
	case err != nil:
		t.Errorf("the API server rejected the object: %v", err)
	}
}
