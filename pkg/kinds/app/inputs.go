package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	// inputsAnnotation on the Deployment has the content of each input of its Pods, so that the operator need not read
	// the inputs after a restart.
	inputsAnnotation = "windlass.dev/inputs"
	// inputsDigestAnnotation on the Pod template is a digest of the contents of all inputs. A change replaces the Pods.
	inputsDigestAnnotation = "windlass.dev/inputs-digest"
)

// input is a Secret or ConfigMap that the Pods of an App use.
type input struct {
	kind, name string
	optional   bool
	reload     bool // a change of the content replaces no Pods
}

// String returns the key of an input in contents.
func (i input) String() string { return i.kind + "/" + i.name }

// describe returns the kinds and names of inputs, for a message.
func describe(inputs []input) string {
	texts := make([]string, len(inputs))
	for i, in := range inputs {
		texts[i] = in.kind + " " + in.name
	}
	return strings.Join(texts, ", ")
}

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// inputsOf returns the inputs of the Pods, each once, sorted by kind and name. An input with several references is
// optional if all of them are optional, and reloaded if all of them are reloaded. The Secrets of imagePullSecrets and
// of the Ingress are not included, because Pods start without them.
func inputsOf(app *v1alpha1.App) []input {
	found := map[string]input{}
	merge := func(in input) {
		if before, ok := found[in.String()]; ok {
			in.optional, in.reload = in.optional && before.optional, in.reload && before.reload
		}
		found[in.String()] = in
	}
	add := func(kind, name string, optional *bool) {
		merge(input{kind: kind, name: name, optional: optional != nil && *optional})
	}
	for _, variable := range app.Spec.Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
			add(kindSecret, from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
		} else if from != nil && from.ConfigMapKeyRef != nil {
			add(kindConfigMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
		}
	}
	for _, from := range app.Spec.EnvFrom {
		if from.SecretRef != nil {
			add(kindSecret, from.SecretRef.Name, from.SecretRef.Optional)
		}
		if from.ConfigMapRef != nil {
			add(kindConfigMap, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		}
	}
	for _, v := range app.Spec.Volumes {
		for kind, files := range map[string]*v1alpha1.AppFiles{kindSecret: v.Secret, kindConfigMap: v.ConfigMap} {
			if files != nil {
				merge(input{kind: kind, name: files.Name, optional: ptr.Deref(files.Optional, false), reload: files.Reload})
			}
		}
	}
	if app.Spec.DatabaseRef != nil {
		add(kindSecret, connectionSecret(app), nil)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b input) int {
		return strings.Compare(a.String(), b.String())
	})
}

// content identifies the data of an input.
type content struct {
	// Version identifies the version of the input in which the operator first read this data.
	Version string `json:"version,omitempty"`
	// Digest is a digest of the data.
	Digest string `json:"digest"`
}

// contents maps the key of each input (input.String) to its content.
type contents map[string]content

// contentsIn returns the contents in inputsAnnotation of a Deployment. It returns nil for an invalid annotation, so
// that the operator reads all inputs again.
func contentsIn(d *appsv1.Deployment) (c contents) {
	if err := json.Unmarshal([]byte(d.Annotations[inputsAnnotation]), &c); err != nil {
		return nil
	}
	return c
}

// String returns one line of JSON, the value of inputsAnnotation. Equal contents have equal strings.
func (c contents) String() string {
	text, _ := json.Marshal(c) // marshaling strings cannot fail
	return string(text)
}

// digest returns the value of inputsDigestAnnotation. It does not depend on the versions of the inputs.
func (c contents) digest() string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c)) {
		hash.Write([]byte(name + "\x00" + c[name].Digest + "\x00"))
	}
	return hex.EncodeToString(hash.Sum(nil))[:digestLength]
}

const digestLength = 16

// digestOfJSON returns a digest of the JSON of a value. json.Marshal must accept the value.
func digestOfJSON(value any) string {
	text, _ := json.Marshal(value)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestLength]
}

// versionOf returns a hash that identifies a version of an object. It does not reveal the UID, which is
// the key of digestOf.
func versionOf(object controller.Versioned) string {
	sum := sha256.Sum256([]byte(string(object.GetUID()) + "/" + object.GetResourceVersion()))
	return hex.EncodeToString(sum[:])[:digestLength]
}

// digestOf returns a digest of the data of an object, keyed with the UID of the object. Only users who
// may read the object know its UID, so that others cannot guess the content of a Secret from the
// annotations of a Deployment.
func digestOf[V string | []byte](object metav1.Object, data map[string]V) string {
	hash := hmac.New(sha256.New, []byte(object.GetUID()))
	for _, key := range slices.Sorted(maps.Keys(data)) {
		sum := sha256.Sum256([]byte(data[key]))
		hash.Write([]byte(key + "\x00"))
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil))[:digestLength]
}
