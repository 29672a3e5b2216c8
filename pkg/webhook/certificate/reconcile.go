package certificate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/certificates"
)

// The label of all objects that Windlass creates.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "windlass"
)

// reconcile writes the Secret or the CustomResourceDefinition, if one of them is not as desired. The event of the write
// starts the next reconcile.
func (s *Source) reconcile(ctx context.Context) error {
	crd, secret, err := s.read(ctx)
	if err != nil {
		return err
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return fmt.Errorf("CustomResourceDefinition %s has no conversion webhook: apply the manifest of this version of "+
			"the operator", crd.Name)
	}
	config := conversion.Webhook.ClientConfig
	if secret.Labels[managedByLabel] != managedBy {
		return fmt.Errorf("the existing Secret %s/%s does not belong to Windlass: set the label %s=%s if the operator may "+
			"overwrite this Secret",
			secret.Namespace, secret.Name, managedByLabel, managedBy)
	}
	now := s.options.Clock.Now()
	current, trusted := certificates.Parse(secret.Data, now), certificates.ParseBundle(config.CABundle, now)
	s.serve(ctx, current.Serving, trusted, now)
	if !s.leads.Load() && s.options.foreign(config, current) {
		s.standBy(ctx, hostOf(config))
		return nil
	}
	s.elsewhere.Store(nil)
	if current.Signer == nil && s.options.addressed(config) {
		// Somebody has deleted or damaged the Secret, which may lack the CAs of certificates that replicas serve with.
		current.Bundle = append(current.Bundle, trusted...)
	}
	desired, err := current.Renew(certificates.Options{
		Name: commonName, Hosts: s.options.hosts(config, current), Overlap: overlap,
	}, now)
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	maps.Copy(data, secret.Data)
	maps.Copy(data, desired.Data())
	stored := maps.EqualFunc(data, secret.Data, bytes.Equal)
	if stored && s.options.isDesired(config, data[certificates.KeyBundle]) {
		return nil
	}
	if !s.writes.AllowN(now, 1) {
		return fmt.Errorf("too many writes: another client keeps changing Secret %s/%s or CustomResourceDefinition %s",
			secret.Namespace, secret.Name, crd.Name)
	}
	if !stored {
		secret.Data = data
		return s.store(ctx, secret)
	}
	return s.patch(ctx, crd, data[certificates.KeyBundle])
}

// read returns the CustomResourceDefinition and the Secret. If the Secret does not exist, read returns a new Secret
// without a resource version. read reads the CustomResourceDefinition first, because a new CA is written to the Secret
// first. A CA that only the CustomResourceDefinition has is therefore not a new CA: it was removed from the Secret.
func (s *Source) read(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, *corev1.Secret, error) {
	crd, err := s.crd.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, CRDName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", CRDName, err)
	}
	secret, err := s.kube.CoreV1().Secrets(s.options.Namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return crd, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.options.Namespace,
				Name:      SecretName,
				Labels:    map[string]string{managedByLabel: managedBy, "app.kubernetes.io/name": "windlass"},
			},
			Type: corev1.SecretTypeTLS,
		}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Secret %s/%s: %w", s.options.Namespace, SecretName, err)
	}
	return crd, secret, nil
}

// serve switches to the certificate in the Secret if the API server trusts that certificate. Otherwise, serve keeps the
// current certificate.
func (s *Source) serve(ctx context.Context, serving *certificates.Pair, trusted []*x509.Certificate, now time.Time) {
	if serving == nil || !serving.IsTrusted(trusted, now) {
		return
	}
	if old := s.serving.Load(); old == nil || !old.Leaf.Equal(serving.Leaf) {
		s.serving.Store(&serving.Certificate)
		klog.FromContext(ctx).Info("Serving conversions with a new certificate", "serial", serving.Leaf.SerialNumber,
			"notAfter", serving.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}

// store creates or updates the Secret. The precondition is the resource version of the Secret.
func (s *Source) store(ctx context.Context, secret *corev1.Secret) error {
	secrets := s.kube.CoreV1().Secrets(secret.Namespace)
	var err error
	if secret.ResourceVersion == "" {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	klog.FromContext(ctx).Info("Wrote the certificates of the webhook into the Secret", "secret", klog.KObj(secret))
	return nil
}

// patch writes the address of this installation and the CAs in bundle into the CustomResourceDefinition. The
// preconditions are the UID and the resource version of crd. The merge patch keeps the port of the Service.
func (s *Source) patch(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, bundle []byte) error {
	address := s.options.address()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": crd.UID, "resourceVersion": crd.ResourceVersion},
		"spec": map[string]any{
			"conversion": map[string]any{
				"webhook": map[string]any{"clientConfig": map[string]any{
					"caBundle": bundle, "url": address.URL, "service": address.Service,
				}},
			},
		},
	})
	if err != nil {
		return fmt.Errorf("encoding the patch of CustomResourceDefinition %s: %w", crd.Name, err)
	}
	crds := s.crd.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Patch(ctx, crd.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patching CustomResourceDefinition %s: %w", crd.Name, err)
	}
	klog.FromContext(ctx).Info("Wrote the address and the CAs of the webhook into the CustomResourceDefinition",
		"crd", crd.Name)
	return nil
}
