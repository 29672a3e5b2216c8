package framework

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// SmallestDatabase returns a spec with only the required fields of Database.
func SmallestDatabase() v1alpha1.DatabaseSpec {
	return v1alpha1.DatabaseSpec{Version: "17", Storage: v1alpha1.DatabaseStorage{Size: resource.MustParse("1Gi")}}
}

// EverythingOfDatabase returns a spec that uses every field of Database, except restoreFrom, which needs a backup of
// another Database.
func EverythingOfDatabase() v1alpha1.DatabaseSpec {
	return v1alpha1.DatabaseSpec{
		Version: "17", Image: "postgres:17.6", Storage: v1alpha1.DatabaseStorage{
			Size: resource.MustParse("1Gi"), MaxSize: ptr.To(resource.MustParse("8Gi")), StorageClassName: ptr.To("standard"),
		},
		DatabaseName: "orders", Owner: "clerk", OwnerAttributes: []v1alpha1.OwnerAttribute{
			v1alpha1.OwnerCreateDB, v1alpha1.OwnerCreateRole,
		}, Parameters: map[string]v1alpha1.ParameterValue{"work_mem": "8MB", "search_path": `"$user", public`},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("0.1000001"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("134217728")},
		},
		Credentials: &v1alpha1.CredentialsSpec{
			RotateEvery: &metav1.Duration{Duration: 720 * time.Hour}, GracePeriod: &metav1.Duration{Duration: 5 * time.Minute},
		},
		Backup: &v1alpha1.DatabaseBackup{
			Schedule: "0 3 * * *", Keep: 7, Destination: v1alpha1.BackupDestination{Claim: v1alpha1.BackupClaim{
				Size: resource.MustParse("2Gi"), StorageClassName: ptr.To("standard"),
			}},
			PodTemplate: &cnatv1.PodTemplate{
				Spec: &runtime.RawExtension{Raw: []byte(`{"tolerations": [{"key": "backups", "operator": "Exists"}]}`)},
			},
		},
		TLS:          v1alpha1.DatabaseTLS{Mode: v1alpha1.TLSRequired},
		UpdatePolicy: v1alpha1.UpdateAutomatic, DeletionPolicy: v1alpha1.DeletionDelete, Metadata: everyMetadata(),
		PodTemplate: &cnatv1.PodTemplate{
			Metadata: cnatv1.PodTemplateMetadata{
				Labels: map[string]string{"team": "storefront"}, Annotations: map[string]string{"example.com/scrape": "true"},
			},
			Spec: &runtime.RawExtension{Raw: []byte(`{"tolerations": [{"key": "databases", "operator": "Exists"}],` +
				`"containers": [{"name": "postgresql", "env": [{"name": "TZ", "value": "UTC"}]}]}`)},
		},
	}
}

// everyMetadata returns labels and annotations for all children.
func everyMetadata() v1alpha1.ChildMetadata {
	return v1alpha1.ChildMetadata{
		Labels:      map[string]v1alpha1.LabelValue{"cost-centre": "4711", "app.kubernetes.io/version": "1.4"},
		Annotations: map[string]v1alpha1.AnnotationValue{"example.com/owner": "team storefront"},
	}
}

// CreateDatabase creates a Database.
func (w *Clients) CreateDatabase(t *testing.T, namespace, name string, spec v1alpha1.DatabaseSpec) *v1alpha1.Database {
	t.Helper()
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"team": "storefront"},
		}, Spec: spec,
	}
	db, err := w.Windlass.WindlassV1alpha1().Databases(namespace).Create(t.Context(), db, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating Database %s/%s: %v", namespace, name, err)
	}
	return db
}

// UpdateDatabase changes a Database, and returns the updated object.
func (w *Clients) UpdateDatabase(
	t *testing.T, namespace, name string, change func(*v1alpha1.Database),
) *v1alpha1.Database {
	t.Helper()
	return update(t, w.Windlass.WindlassV1alpha1().Databases(namespace), name, change)
}

// DatabaseWith waits until the status of a Database reflects its newest generation, and wanted returns true. It returns
// the Database. what describes the wanted state in the message of a failure.
func (w *Clients) DatabaseWith(
	t *testing.T, namespace, name, what string, wanted func(*v1alpha1.Database) bool,
) *v1alpha1.Database {
	t.Helper()
	return with(t, w.Windlass.WindlassV1alpha1().Databases(namespace), name, what, wanted)
}

// DatabaseIn waits until a Database has the given phase for its newest generation.
func (w *Clients) DatabaseIn(t *testing.T, namespace, name string, phase v1alpha1.DatabasePhase) *v1alpha1.Database {
	t.Helper()
	return w.DatabaseWith(t, namespace, name, string(phase), func(db *v1alpha1.Database) bool {
		return db.Status.Phase == phase
	})
}

// DatabaseReason waits until the condition Ready of a Database has the given reason for the newest generation.
func (w *Clients) DatabaseReason(t *testing.T, namespace, name, reason string) *v1alpha1.Database {
	t.Helper()
	return w.DatabaseWith(t, namespace, name, reason, readyFor[*v1alpha1.Database](reason))
}

// Credentials returns the credentials Secret of a Database or ExternalDatabase.
func (w *Clients) Credentials(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	s, err := w.Kube.CoreV1().Secrets(namespace).Get(t.Context(), name+"-credentials", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("getting Secret %s-credentials: %v", name, err)
	}
	return s
}
