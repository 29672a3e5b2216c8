package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	// inputsAnnotation on the Deployment has the version and digest of each Secret and ConfigMap that its Pods
	// use, so that the operator need not read these objects after a restart.
	inputsAnnotation = "windlass.dev/inputs"
	// digestAnnotation on the Pod template is a digest of all inputs. A change replaces the Pods.
	digestAnnotation = "windlass.dev/inputs-digest"
	// ownConfig is the key of spec.config in inputs.
	ownConfig = "config"
)

// reference is a Secret or ConfigMap that an App refers to.
type reference struct {
	kind, name string
	optional   bool
}

// String returns the key of a reference in inputs.
func (r reference) String() string { return r.kind + "/" + r.name }

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// referencesOf returns the Secrets and ConfigMaps that the Pods use, each once, sorted by kind and name.
// An object with several references is optional if all of them are. The Secrets of imagePullSecrets and
// of the Ingress are not included, because Pods start without them.
func referencesOf(app *v1alpha1.App) []reference {
	found := map[string]reference{}
	add := func(kind, name string, optional *bool) {
		if kind == kindConfigMap && name == app.Name && hasConfig(app) {
			return // the App's own ConfigMap, whose key in inputs is ownConfig
		}
		r := reference{kind, name, optional != nil && *optional}
		if before, ok := found[r.String()]; ok {
			r.optional = r.optional && before.optional
		}
		found[r.String()] = r
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
	if app.Spec.DatabaseRef != nil {
		add(kindSecret, connectionSecret(app), nil)
	}
	if len(found) == 0 {
		return nil // the usual case, without an allocation
	}
	return slices.SortedFunc(maps.Values(found), func(a, b reference) int {
		return strings.Compare(a.String(), b.String())
	})
}

// input identifies the content of a Secret or ConfigMap that the Pods use.
type input struct {
	// Version identifies the version of the object in which the operator first read this content. It is empty
	// for spec.config.
	Version string `json:"version,omitempty"`
	// Digest identifies the content.
	Digest string `json:"digest"`
}

// inputs maps each reference of the Pods (reference.String), and ownConfig, to its input.
type inputs map[string]input

// inputsFrom parses the result of inputs.String. It returns nil for an invalid annotation, so that the
// operator reads all Secrets and ConfigMaps again.
func inputsFrom(annotation string) inputs {
	var in inputs
	if err := json.Unmarshal([]byte(annotation), &in); err != nil {
		return nil
	}
	return in
}

// String returns one line of JSON. Equal inputs have equal strings.
func (in inputs) String() string {
	text, _ := json.Marshal(in) // marshaling strings cannot fail
	return string(text)
}

// digest returns a digest of the content of all inputs. It does not depend on their versions.
func (in inputs) digest() string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		hash.Write([]byte(name + "\x00" + in[name].Digest + "\x00"))
	}
	return hex.EncodeToString(hash.Sum(nil))[:digestLength]
}

const digestLength = 16

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

func digestOfConfigMap(c *corev1.ConfigMap) string {
	return digestOf(c, c.Data) + digestOf(c, c.BinaryData)
}
