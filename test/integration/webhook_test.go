//go:build integration

package integration

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/test/framework"
)

func TestWebhookServesReadsDuringCertificateRenewal(t *testing.T) {
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "read", "echo Hello", nil)
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var reads atomic.Int64
	for range 2 {
		readers.Go(func() {
			for reading.Err() == nil {
				if _, err := shared.Windlass.CnatV1alpha1().Ats(namespace).Get(t.Context(), "read",
					metav1.GetOptions{}); err != nil {
					t.Errorf("reading an At as v1alpha1: %v", err)
				}
				reads.Add(1)
			}
		})
	}
	defer readers.Wait()
	defer stop()

	secrets := shared.Kube.CoreV1().Secrets("windlass-system")
	secret, err := secrets.Get(t.Context(), "windlass-webhook-certificate", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("getting the Secret of the certificate: %v", err)
	}
	before := secret.Data[corev1.TLSCertKey]
	// The operator renews an unreadable certificate in the same way as a certificate that expires soon.
	if _, err := secrets.Patch(t.Context(), secret.Name, types.MergePatchType,
		[]byte(`{"data":{"tls.crt":"YnJva2Vu"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatalf("breaking the certificate: %v", err)
	}
	framework.Eventually(t, "a new certificate", func(ctx context.Context) (bool, error) {
		secret, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		return err == nil && bytes.HasPrefix(secret.Data[corev1.TLSCertKey], []byte("-----BEGIN")) &&
			!bytes.Equal(secret.Data[corev1.TLSCertKey], before), err
	})
	seen := reads.Load()
	framework.Eventually(t, "reads with the new certificate", func(context.Context) (bool, error) {
		return reads.Load() > seen+100, nil
	})
}
