package certificate

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// sync takes at most one step. The event of the write queues the next reconcile.
func (s *Source) sync(ctx context.Context) error {
	v, err := s.cached()
	if err != nil {
		return err
	}
	s.serve(ctx, v)
	step, err := s.options.plan(v)
	if err != nil {
		return err
	}
	s.note(ctx, step.foreign, v.crd)
	if step.writes() {
		return s.write(ctx)
	}
	return nil
}

// cached returns the state in the caches.
func (s *Source) cached() (view, error) {
	crd, err := s.crds.Get(s.options.CRDName)
	if err != nil {
		return view{}, fmt.Errorf("reading CustomResourceDefinition %s from the cache: %w", s.options.CRDName, err)
	}
	secret, err := s.secrets.Secrets(s.options.Namespace).Get(s.options.SecretName)
	if err != nil && !apierrors.IsNotFound(err) {
		return view{}, fmt.Errorf("reading Secret %s/%s from the cache: %w", s.options.Namespace, s.options.SecretName, err)
	}
	return view{secret: secret, crd: crd, leads: s.leads.Load(), now: s.options.Clock.Now()}, nil
}

// serve switches to the certificate in the Secret if the API server trusts it. Otherwise it keeps the current
// certificate.
func (s *Source) serve(ctx context.Context, v view) {
	config, err := clientConfig(v.crd)
	if err != nil {
		return
	}
	serving := v.content().serving
	if serving == nil || !trusts(parseBundle(config.CABundle, v.now), serving.Leaf, v.now) {
		return
	}
	if old := s.serving.Load(); old == nil || !old.Leaf.Equal(serving.Leaf) {
		s.serving.Store(serving)
		klog.FromContext(ctx).Info("Serving conversions with a new certificate", "serial", serving.Leaf.SerialNumber,
			"notAfter", serving.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}

// write plans again with the live objects, and applies the step.
func (s *Source) write(ctx context.Context) error {
	v, err := s.live(ctx)
	if err != nil {
		return err
	}
	step, err := s.options.plan(v)
	if err != nil || !step.writes() {
		return err
	}
	if !s.writes.TryAccept() {
		return fmt.Errorf("too many writes: another client keeps changing Secret %s/%s or CustomResourceDefinition %s",
			s.options.Namespace, s.options.SecretName, s.options.CRDName)
	}
	if err := s.apply(ctx, v, step); err != nil {
		return err
	}
	klog.FromContext(ctx).Info(step.what, "secret", klog.KRef(s.options.Namespace, s.options.SecretName), "crd",
		s.options.CRDName)
	return nil
}

// live reads the state from the API server. It reads the CustomResourceDefinition before the Secret, because a
// new CA is written to the Secret first. A CA that only the CustomResourceDefinition has is therefore not a new
// CA: it was removed from the Secret.
func (s *Source) live(ctx context.Context) (view, error) {
	crd, err := s.crd.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, s.options.CRDName, metav1.GetOptions{})
	if err != nil {
		return view{}, fmt.Errorf("reading CustomResourceDefinition %s: %w", s.options.CRDName, err)
	}
	secret, err := s.kube.CoreV1().Secrets(s.options.Namespace).Get(ctx, s.options.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret = nil
	} else if err != nil {
		return view{}, fmt.Errorf("reading Secret %s/%s: %w", s.options.Namespace, s.options.SecretName, err)
	}
	return view{secret: secret, crd: crd, leads: s.leads.Load(), now: s.options.Clock.Now()}, nil
}

// apply sends the write of a step.
func (s *Source) apply(ctx context.Context, v view, step step) error {
	secrets := s.kube.CoreV1().Secrets(s.options.Namespace)
	switch {
	case step.data != nil && v.secret == nil:
		if _, err := secrets.Create(ctx, s.options.newSecret(step.data), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Secret %s/%s: %w", s.options.Namespace, s.options.SecretName, err)
		}
	case step.data != nil:
		if _, err := secrets.Update(ctx, withData(v.secret, step.data), metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("updating Secret %s/%s: %w", s.options.Namespace, s.options.SecretName, err)
		}
	case step.patch != nil:
		patch, err := mergePatch(v.crd, step.patch)
		if err != nil {
			return fmt.Errorf("encoding the patch of CustomResourceDefinition %s: %w", v.crd.Name, err)
		}
		crds := s.crd.ApiextensionsV1().CustomResourceDefinitions()
		if _, err := crds.Patch(ctx, v.crd.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("patching CustomResourceDefinition %s: %w", v.crd.Name, err)
		}
	}
	return nil
}
