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
	// inputsAnnotation on the Deployment tells which version of each Secret and
	// ConfigMap its Pods were made for, so that a restart reads none of them.
	inputsAnnotation = "windlass.dev/inputs"
	// digestAnnotation on the Pods is a digest of all their inputs. Another one
	// replaces the Pods.
	digestAnnotation = "windlass.dev/inputs-digest"
	// ownConfig is the input that comes from spec.config.
	ownConfig = "config"
)

// reference is a Secret or ConfigMap that an App names.
type reference struct {
	kind, name string
	optional   bool
}

// String is the key of a reference among inputs, and in the index.
func (r reference) String() string { return r.kind + "/" + r.name }

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
	kindDatabase  = "Database" // what databaseRef names unless it says otherwise
)

// referencesOf are the Secrets and ConfigMaps that decide what the Pods see, each
// once, in order. One that is named twice is optional only if it is so each time.
// The Secrets of imagePullSecrets and of TLS are not among them: Pods start without.
func referencesOf(app *v1alpha1.App) []reference {
	found := map[string]reference{}
	add := func(kind, name string, optional *bool) {
		if kind == kindConfigMap && name == app.Name && hasConfig(app) {
			return // the App's own, which is made of its spec
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
		return nil // as for most; a pass at rest allocates nothing for it then
	}
	return slices.SortedFunc(maps.Values(found), func(a, b reference) int {
		return strings.Compare(a.String(), b.String())
	})
}

// input is one thing that the Pods were made for.
type input struct {
	// Version tells one version of the object from another: the first that was seen with
	// the digest.
	Version string `json:"version,omitempty"`
	// Digest tells one content from another.
	Digest string `json:"digest"`
}

// inputs are all of them, by reference.
type inputs map[string]input

// inputsFrom reads what String has written. What somebody has broken is read anew.
func inputsFrom(annotation string) inputs {
	var in inputs
	if err := json.Unmarshal([]byte(annotation), &in); err != nil {
		return nil
	}
	return in
}

// String is one line of JSON, the same for the same inputs.
func (in inputs) String() string {
	text, _ := json.Marshal(in) // a map of strings always has JSON
	return string(text)
}

// digest is one for all, whatever their versions are.
func (in inputs) digest() string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		hash.Write([]byte(name + "\x00" + in[name].Digest + "\x00"))
	}
	return hex.EncodeToString(hash.Sum(nil))[:digestLength]
}

const digestLength = 16

// versionOf changes whenever the object does. It does not tell the UID, which is the
// key of the digest.
func versionOf(object controller.Versioned) string {
	sum := sha256.Sum256([]byte(string(object.GetUID()) + "/" + object.GetResourceVersion()))
	return hex.EncodeToString(sum[:])[:digestLength]
}

// digestOf tells one content of an object from another. The digest is keyed with the
// object's UID, so that the content of a Secret cannot be guessed at by those who
// can read the Deployment: the UID is told to nobody who may not read the Secret.
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
