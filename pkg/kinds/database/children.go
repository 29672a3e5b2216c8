package database

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// Names of children that other children need.
const (
	nameCertificate  = "Secret" + certificateSuffix
	nameEncryption   = "encryption"
	nameConnection   = "Secret" + credentials.Suffix
	nameRotation     = "rotation"
	nameBackupSecret = "Secret" + backupSuffix
	nameSettings     = "Secret" + settingsSuffix
	nameClaim        = "PersistentVolumeClaim"
	nameStatefulSet  = "StatefulSet"
	nameBackupClaim  = "PersistentVolumeClaim" + backupSuffix
)

// declareChildren declares the children of a Database, in the order in which they are applied. The claim comes after
// the Secrets, because the volume outlives the Database and must not be created for a server that cannot start.
func (r *reconciler) declareChildren(c kinds.Cluster) []children.Child[*scope] {
	r.certificate = &children.Declaration[*scope, *corev1.Secret]{
		Resource: c.Secrets(),
		Suffix:   certificateSuffix,
		Hold:     func(p *scope) bool { return !issuesCertificate(p.db) },
		Desired:  func(p *scope) *corev1.Secret { return desiredCertificate(p.db, p.issued) },
	}
	r.connection = &children.Declaration[*scope, *corev1.Secret]{
		Resource: c.Secrets(),
		Suffix:   credentials.Suffix,
		Needs:    []string{nameEncryption},
		Desired:  func(p *scope) *corev1.Secret { return newSecret(p.db, p.encryption) }, // with a new password
		Keep: func(p *scope, desired, live *corev1.Secret) { // an existing Secret keeps its password
			credentials.Keep(p.db.Spec.Owner, r.clock.Now())(desired, live)
		},
		Applied: func(p *scope, live *corev1.Secret) { p.secret = live },
	}
	r.claim = &children.Declaration[*scope, *corev1.PersistentVolumeClaim]{
		Resource: c.PersistentVolumeClaims(),
		Needs:    []string{nameSettings},
		Desired: func(p *scope) *corev1.PersistentVolumeClaim {
			desired := desiredClaim(p.db)
			if p.cannotGrow != nil { // applyClaim has set p.cannotGrow and p.claim
				desired.Spec.Resources.Requests[corev1.ResourceStorage] = *claims.Requested(p.claim)
			}
			return desired
		},
		Keep:     func(_ *scope, desired, live *corev1.PersistentVolumeClaim) { claims.KeepSize(desired, live) },
		Applied:  func(p *scope, live *corev1.PersistentVolumeClaim) { p.claim = live },
		Yielded:  [][]string{{"spec", "storageClassName"}}, // an existing volume keeps its class
		Outlives: true,
	}
	r.statefulSet = &children.Declaration[*scope, *appsv1.StatefulSet]{
		Resource: c.StatefulSets(),
		Needs:    []string{nameClaim},
		Desired:  func(p *scope) *appsv1.StatefulSet { return desiredStatefulSet(p.db, p.template) },
		Keep: func(p *scope, desired, live *appsv1.StatefulSet) {
			r.keepServer(p, desired, live)
			keepTemplate(p.db, desired, live)
			keepRetried(desired, live)
		},
		Applied: func(p *scope, live *appsv1.StatefulSet) { p.statefulSet = live },
		Yielded: [][]string{pods.RestartedAt},
	}
	return slices.Concat([]children.Child[*scope]{
		wrapped[*corev1.Secret]{r.certificate, r.applyCertificate},
		children.Step[*scope]{Name: nameEncryption, Needs: []string{nameCertificate}, Apply: r.encrypt},
		r.connection,
		children.Step[*scope]{Name: nameRotation, Needs: []string{nameConnection}, Apply: r.rotate},
		r.backupSecret(c),
		r.declareSettings(c),
		r.service(c),
		wrapped[*corev1.PersistentVolumeClaim]{r.claim, r.applyClaim},
		wrapped[*appsv1.StatefulSet]{r.statefulSet, r.applyStatefulSet},
		children.Step[*scope]{Name: "server", Needs: []string{nameStatefulSet}, Apply: r.server},
		children.Step[*scope]{Name: "growth", Needs: []string{nameStatefulSet}, Apply: r.grow}, // after the server was read
	}, r.declareBackup(c))
}

// service declares the Service. It is adopted only when the server runs: before, it would lead to no Pod.
func (r *reconciler) service(c kinds.Cluster) children.Child[*scope] {
	service := children.Owns(c.Services(), func(p *scope) *corev1.Service { return desiredService(p.db) })
	service.Adopt = func(
		_ context.Context, p *scope, _, live *corev1.Service, _ func(*corev1.Service) (*corev1.Service, error),
	) error {
		set, err := r.statefulSet.Type().Cache.Get(p.db.Namespace, p.db.Name)
		if err != nil || !p.Owns(set) || set.Status.ReadyReplicas == 0 {
			return p.WaitToAdopt(live, "StatefulSet")
		}
		return nil
	}
	return service
}

// wrapped is a Declaration with a function that is called in place of the function that applies the Declaration. apply
// gets this function as ensure.
type wrapped[C children.Object] struct {
	*children.Declaration[*scope, C]
	apply func(ctx context.Context, p *scope, ensure func(context.Context, *scope) error) error
}

// Bind implements children.Child.
func (w wrapped[C]) Bind(tracker *controller.Tracker) children.Step[*scope] {
	step := w.Declaration.Bind(tracker)
	ensure := step.Apply
	step.Apply = func(ctx context.Context, p *scope) error { return w.apply(ctx, p, ensure) }
	return step
}
