package certificate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The label of all objects that Windlass creates.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "windlass"
)

// ours reports whether the Secret has the label of Windlass.
func ours(secret *corev1.Secret) bool { return secret.Labels[managedByLabel] == managedBy }

// newSecret returns the Secret to create.
func (o *Options) newSecret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace,
			Name:      o.SecretName,
			Labels:    map[string]string{managedByLabel: managedBy, "app.kubernetes.io/name": "windlass"},
		},
		Type: corev1.SecretTypeTLS,
		Data: data,
	}
}

// withData returns a copy of the Secret with the values in update. The copy keeps the resource version, which is
// the precondition of the write.
func withData(secret *corev1.Secret, update map[string][]byte) *corev1.Secret {
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.Copy(secret.Data, update)
	return secret
}

// clientConfig returns the configuration with which the API server calls the conversion webhook. It fails if the
// CustomResourceDefinition has no conversion webhook.
func clientConfig(crd *apiextensionsv1.CustomResourceDefinition) (apiextensionsv1.WebhookClientConfig, error) {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter || conversion.Webhook == nil {
		return apiextensionsv1.WebhookClientConfig{}, fmt.Errorf(
			"CustomResourceDefinition %s has no conversion webhook: apply the manifest of this version of the operator",
			crd.Name)
	}
	if conversion.Webhook.ClientConfig == nil {
		return apiextensionsv1.WebhookClientConfig{}, nil
	}
	return *conversion.Webhook.ClientConfig, nil
}

// patch returns a merge patch that sets the bundle and the address of this installation in config. It returns
// nil if config has both.
func (o *Options) patch(config apiextensionsv1.WebhookClientConfig, bundle []byte) map[string]any {
	patch := map[string]any{}
	if !bytes.Equal(config.CABundle, bundle) {
		patch["caBundle"] = bundle
	}
	if o.URL != "" {
		if config.URL == nil || *config.URL != o.URL {
			patch["url"] = o.URL
		}
		if config.Service != nil {
			patch["service"] = nil
		}
	} else {
		if config.URL != nil {
			patch["url"] = nil
		}
		if !o.isService(config.Service) {
			patch["service"] = map[string]any{"namespace": o.Namespace, "name": o.ServiceName, "path": Path}
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

func (o *Options) isService(service *apiextensionsv1.ServiceReference) bool {
	return service != nil && service.Namespace == o.Namespace && service.Name == o.ServiceName &&
		service.Path != nil && *service.Path == Path
}

// mergePatch returns a merge patch of the CustomResourceDefinition that applies clientConfig. Its preconditions
// are the UID and the resource version of the CustomResourceDefinition.
func mergePatch(crd *apiextensionsv1.CustomResourceDefinition, clientConfig map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": crd.UID, "resourceVersion": crd.ResourceVersion},
		"spec": map[string]any{
			"conversion": map[string]any{
				"webhook": map[string]any{"clientConfig": clientConfig},
			},
		},
	})
}
