package app

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

const (
	// SpecAnnotation on a Deployment has the spec of its App, without keptFields and deletionPolicy, as JSON. The
	// Deployment controller copies the annotations of a Deployment to the ReplicaSet of its Pod template
	// (k8s.io/kubernetes, pkg/controller/deployment/util), so that each ReplicaSet has the spec to which RollBack returns.
	// The annotation is empty if it would have more than maxSpec bytes: the Deployment controller does not copy its
	// removal.
	SpecAnnotation = controller.AnnotationDomain + "/app-spec"
	// TemplateDigestAnnotation on a Pod template has a digest of the template without its operator fields. A Pod of the
	// newest template has the same value as the template of the Deployment.
	TemplateDigestAnnotation = controller.AnnotationDomain + "/template-digest"
)

// maxSpec limits SpecAnnotation in bytes. The API server limits the annotations of an object to 256 KiB in total, and
// the record of the Deployment has a copy of each annotation.
const maxSpec = 16 << 10

// keptFields are the JSON names of the fields of a spec that a rollback keeps. They never change the Pod template.
var keptFields = []string{"replicas", "autoscaling", "service", "ingress", "route", "rollout", "metadata"}

// setSpec sets SpecAnnotation on a desired Deployment.
func setSpec(app *v1alpha1.App, d *appsv1.Deployment) {
	spec := app.Spec
	spec.Replicas, spec.Autoscaling, spec.Service, spec.Ingress, spec.Route = nil, nil, nil, nil, nil
	spec.Rollout = nil
	spec.Metadata = v1alpha1.ChildMetadata{}
	spec.Volumes = slices.Clone(spec.Volumes)
	for i, v := range spec.Volumes {
		if v.Claim != nil {
			claim := *v.Claim
			claim.DeletionPolicy = ""
			spec.Volumes[i].Claim = &claim
		}
	}
	text, _ := json.Marshal(spec) // a spec can always be encoded
	if len(text) > maxSpec {
		text = nil
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, SpecAnnotation, string(text))
}

// RollBack returns the spec of an App after a rollback to previous, a spec from SpecAnnotation: the fields of previous,
// and keptFields and each deletionPolicy of spec. Both are decoded JSON.
func RollBack(spec, previous map[string]any) map[string]any {
	result := runtime.DeepCopyJSON(previous)
	current := claimsIn(spec)
	for name, claim := range claimsIn(result) {
		if policy, set := current[name]["deletionPolicy"]; set {
			claim["deletionPolicy"] = policy
		}
	}
	for _, field := range keptFields {
		delete(result, field)
		if value, set := spec[field]; set {
			result[field] = value
		}
	}
	return result
}

// claimsIn returns the claims of the volumes in a spec, which is decoded JSON, by the name of their volume.
func claimsIn(spec map[string]any) map[string]map[string]any {
	claims := map[string]map[string]any{}
	volumes, _ := spec["volumes"].([]any)
	for _, item := range volumes {
		volume, _ := item.(map[string]any)
		name, _ := volume["name"].(string)
		if claim, ok := volume["claim"].(map[string]any); ok {
			claims[name] = claim
		}
	}
	return claims
}
