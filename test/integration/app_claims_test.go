//go:build integration

package integration

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func TestDeletionPolicyDecidesOnClaimOfDeletedApp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy  v1alpha1.DeletionPolicy
		cascade string
		stays   bool
	}{
		"the default":                 {cascade: "background", stays: true},
		"Retain":                      {policy: v1alpha1.DeletionRetain, cascade: "foreground", stays: true},
		"Delete":                      {policy: v1alpha1.DeletionDelete, cascade: "background"},
		"Delete, and the Pods first":  {policy: v1alpha1.DeletionDelete, cascade: "foreground"},
		"Delete, and children remain": {policy: v1alpha1.DeletionDelete, cascade: "orphan", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, spec := shared.NewNamespace(t), smallest()
			spec.Volumes = []v1alpha1.AppVolume{{Name: "data", MountPath: "/data", Claim: &v1alpha1.AppClaim{
				Size: resource.MustParse("1Gi"), DeletionPolicy: c.policy,
			}}}
			shared.CreateApp(t, namespace, "shop", spec)
			shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
			if _, err := shared.Kubectl(t.Context(), "", "delete", "app", "shop", "-n", namespace, "--timeout=60s",
				"--cascade="+c.cascade); err != nil {
				t.Fatal(err)
			}
			claims := shared.Kube.CoreV1().PersistentVolumeClaims(namespace)
			if c.stays {
				if claim, err := claims.Get(t.Context(), "shop-data", metav1.GetOptions{}); err != nil ||
					claim.DeletionTimestamp != nil {
					t.Errorf("the claim does not stay: %v, %v", claim, err)
				}
				return
			}
			framework.Eventually(t, "the claim to be deleted", func(ctx context.Context) (bool, error) {
				_, err := claims.Get(ctx, "shop-data", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return true, nil
				}
				return false, err
			})
		})
	}
}
