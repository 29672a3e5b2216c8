//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// createReadyDatabase creates a Database "shop" in a new namespace, and returns the namespace when the Database is
// Ready. If change is not nil, it modifies the smallest spec before the creation.
func createReadyDatabase(t *testing.T, change func(*v1alpha1.DatabaseSpec)) string {
	t.Helper()
	spec := framework.SmallestDatabase()
	if change != nil {
		change(&spec)
	}
	return databases.createReady(t, spec)
}

// claimOf returns the PersistentVolumeClaim of Database "shop", or nil.
func claimOf(t *testing.T, namespace string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := shared.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func deleteDatabase(t *testing.T, namespace string) {
	t.Helper()
	_, err := shared.Kubectl(t.Context(), "", "delete", "database", "shop", "-n", namespace, "--timeout=60s")
	if err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseDeletionAppliesPolicyToVolume(t *testing.T) {
	t.Parallel()
	retain, remove := v1alpha1.DeletionRetain, v1alpha1.DeletionDelete
	for name, c := range map[string]struct {
		first, last v1alpha1.DeletionPolicy
		stays       bool
	}{
		"the default keeps the volume":          {stays: true},
		"Retain keeps the volume":               {first: retain, stays: true},
		"Delete deletes the volume":             {first: remove},
		"a change to Retain keeps the volume":   {first: remove, last: retain, stays: true},
		"a change to Delete deletes the volume": {first: retain, last: remove},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := createReadyDatabase(t, func(spec *v1alpha1.DatabaseSpec) { spec.DeletionPolicy = c.first })
			before := claimOf(t, namespace)
			if c.last != "" {
				shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = c.last })
			}
			deleteDatabase(t, namespace)
			framework.Eventually(t, "the StatefulSet to be deleted", func(ctx context.Context) (bool, error) {
				_, err := shared.Kube.AppsV1().StatefulSets(namespace).Get(ctx, "shop", metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
			if !c.stays {
				framework.Eventually(t, "the claim to be deleted", func(context.Context) (bool, error) {
					return claimOf(t, namespace) == nil, nil
				})
				return
			}
			shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
			shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
			after := claimOf(t, namespace)
			if after == nil || after.UID != before.UID || after.DeletionTimestamp != nil ||
				after.Spec.VolumeName != before.Spec.VolumeName {
				t.Errorf("the claim was %v and is %v, want the same claim", before, after)
			}
		})
	}
}

// TestRetainDuringDeletionKeepsVolume sets the policy Retain while the Database is being deleted. The
// annotation windlass.dev/paused delays the deletion until then.
func TestRetainDuringDeletionKeepsVolume(t *testing.T) {
	t.Parallel()
	namespace := createReadyDatabase(t, func(spec *v1alpha1.DatabaseSpec) {
		spec.DeletionPolicy = v1alpha1.DeletionDelete
	})
	pause := func(paused string) {
		shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) {
			metav1.SetMetaDataAnnotation(&db.ObjectMeta, "windlass.dev/paused", paused)
		})
	}
	pause("true")
	if _, err := shared.Kubectl(t.Context(), "", "delete", "database", "shop", "-n", namespace,
		"--wait=false"); err != nil {
		t.Fatal(err)
	}
	shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) {
		db.Spec.DeletionPolicy = v1alpha1.DeletionRetain
	})
	pause("false")
	framework.Eventually(t, "the Database to be deleted", func(ctx context.Context) (bool, error) {
		_, err := shared.Windlass.WindlassV1alpha1().Databases(namespace).Get(ctx, "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if claim := claimOf(t, namespace); claim == nil || claim.DeletionTimestamp != nil {
		t.Errorf("the claim is %v, want a claim that is not being deleted", claim)
	}
}

func TestDatabaseExpandsVolumeIfClassAllows(t *testing.T) {
	t.Parallel()
	resize := func(size string) func(*v1alpha1.Database) {
		return func(db *v1alpha1.Database) { db.Spec.Storage.Size = resource.MustParse(size) }
	}
	t.Run("the class allows expansion", func(t *testing.T) {
		t.Parallel()
		namespace := createReadyDatabase(t, nil)
		shared.UpdateDatabase(t, namespace, "shop", resize("3Gi"))
		shared.DatabaseWith(t, namespace, "shop", "expanded", func(db *v1alpha1.Database) bool {
			return db.Status.Phase == v1alpha1.DatabaseReady && db.Status.Storage.String() == "3Gi" &&
				meta.IsStatusConditionFalse(db.Status.Conditions, "Progressing")
		})
		if has := claimOf(t, namespace).Status.Capacity[corev1.ResourceStorage]; has.String() != "3Gi" {
			t.Errorf("the claim has a capacity of %s, want 3Gi", has.String())
		}
	})
	t.Run("the class forbids expansion and the status reports it", func(t *testing.T) {
		t.Parallel()
		namespace := createReadyDatabase(t, func(spec *v1alpha1.DatabaseSpec) {
			spec.Storage.StorageClassName = ptr.To("fixed")
		})
		shared.UpdateDatabase(t, namespace, "shop", func(db *v1alpha1.Database) {
			resize("3Gi")(db)
			db.Spec.Image = "postgres:17.7"
		})
		stuck := shared.DatabaseReason(t, namespace, "shop", "StorageCannotGrow")
		ready := meta.FindStatusCondition(stuck.Status.Conditions, "Ready")
		if stuck.Status.Storage.String() != "1Gi" ||
			!strings.Contains(ready.Message, "The size of the volume stays 1Gi: ") ||
			!strings.Contains(ready.Message, ". Set storage.size to 1Gi") ||
			!strings.Contains(ready.Message, "storageclass") {
			t.Errorf("status.storage is %s, with the message %q", stuck.Status.Storage, ready.Message)
		}
		set, err := shared.Kube.AppsV1().StatefulSets(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
		if err != nil || set.Spec.Template.Spec.Containers[0].Image != "postgres:17.7" {
			t.Errorf("the rejected expansion prevents the change of the image: %v", err)
		}
		_, err = shared.Kubectl(t.Context(), "", "patch", "database", "shop", "-n", namespace, "--type=merge", "-p",
			`{"spec":{"storage":{"size":"500Mi"}}}`)
		if err == nil || !strings.Contains(err.Error(), "storage.size cannot shrink") {
			t.Errorf("setting a size below the volume's: got %v, want an error", err)
		}
		if rejected := rejectedWrites(t, namespace); len(rejected) != 1 {
			t.Errorf("the operator sent the rejected expansion %d times, want 1: %v", len(rejected), rejected)
		}
		shared.UpdateDatabase(t, namespace, "shop", resize("1Gi"))
		shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
	})
}

func TestAPIServerExplainsRejectedDatabaseChanges(t *testing.T) {
	t.Parallel()
	namespace := createReadyDatabase(t, func(spec *v1alpha1.DatabaseSpec) { *spec = framework.EverythingOfDatabase() })
	for name, c := range map[string]struct{ patch, want string }{
		"a later version": {
			`{"version":"18"}`, "create another Database of the new version, and copy the data with pg_dump and psql",
		},
		"a version below the one of the data": {
			`{"version":"16"}`, "create another Database of the new version, and copy the data with pg_dump and psql",
		},
		"another class": {
			`{"storage":{"storageClassName":"fixed"}}`, "create another Database of that class, and copy the data " +
				"with pg_dump and psql",
		},
		"no class": {
			`{"storage":{"storageClassName":null}}`, "create another Database of that class, and copy the data with " +
				"pg_dump and psql",
		},
		"a backup to restore": {
			`{"restoreFrom":{"database":{"name":"other"}}}`, "create another Database to restore a backup",
		},
		"less storage": {
			`{"storage":{"size":"999Mi"}}`, "create another Database with less storage, and copy the data with pg_dump and psql",
		},
		"a number of bytes": {
			`{"storage":{"size":1}}`, "create another Database with less storage, and copy the data with pg_dump and psql",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shared.Kubectl(t.Context(), "", "patch", "database", "shop", "-n", namespace, "--type=merge",
				"-p", `{"spec":`+c.patch+`}`)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	// The same size in another unit is not a change.
	if _, err := shared.Kubectl(t.Context(), "", "patch", "database", "shop", "-n", namespace, "--type=merge", "-p",
		`{"spec":{"storage":{"size":"1048576Ki"}}}`); err != nil {
		t.Error(err)
	}
	if writes := rejectedWrites(t, namespace); len(writes) > 0 {
		t.Errorf("the API server rejected writes of the operator: %v", writes)
	}
}

// rejectedWrites returns the operator's requests in a namespace to which the API server responded with status 400, 403
// or 422.
func rejectedWrites(t *testing.T, namespace string) (rejected []string) {
	t.Helper()
	found, err := shared.Requests(func(r framework.Request) bool {
		return r.User.Username == controllerUser && r.ObjectRef.Namespace == namespace &&
			(r.ResponseStatus.Code == 422 || r.ResponseStatus.Code == 403 || r.ResponseStatus.Code == 400)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range found {
		rejected = append(rejected, r.String())
	}
	return rejected
}

func TestInvalidDatabasesAreRejectedAndCreateNothing(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	long := strings.Repeat("ä", 32) // 64 bytes
	for name, c := range map[string]struct{ spec, want string }{
		"no version":                 {`{"storage":{"size":"1Gi"}}`, "spec.version"},
		"an unsupported version":     {`{"version":"9.6","storage":{"size":"1Gi"}}`, "spec.version"},
		"a version that is a number": {`{"version":17,"storage":{"size":"1Gi"}}`, "spec.version"},
		"no storage":                 {`{"version":"17"}`, "spec.storage"},
		"an invalid size":            {`{"version":"17","storage":{"size":"much"}}`, "spec.storage.size"},
		"a size of zero":             {`{"version":"17","storage":{"size":"0"}}`, "must be above 0"},
		"a negative size":            {`{"version":"17","storage":{"size":"-1Gi"}}`, "must be above 0"},
		"an image with a space":      {`{"version":"17","storage":{"size":"1Gi"},"image":"a b"}`, "spec.image"},
		"a reserved owner":           {`{"version":"17","storage":{"size":"1Gi"},"owner":"postgres"}`, "owner may"},
		"a predefined role as owner": {`{"version":"17","storage":{"size":"1Gi"},"owner":"pg_monitor"}`, "owner may"},
		"an owner with a NUL":        {`{"version":"17","storage":{"size":"1Gi"},"owner":"a\u0000b"}`, "owner may"},
		"an owner with a line break": {`{"version":"17","storage":{"size":"1Gi"},"owner":"a\nb"}`, "owner may"},
		"an owner that is too long":  {`{"version":"17","storage":{"size":"1Gi"},"owner":"` + long + `"}`, "63 bytes"},
		"a reserved database": {
			`{"version":"17","storage":{"size":"1Gi"},"databaseName":"template1"}`, "databaseName may",
		},
		"a database that is too long": {
			`{"version":"17","storage":{"size":"1Gi"},"databaseName":"` + long + `"}`, "63 bytes",
		},
		"a parameter of the operator": {
			`{"version":"17","storage":{"size":"1Gi"},"parameters":{"listen_addresses":"*"}}`, "cannot be set",
		},
		"a parameter in capitals": {`{"version":"17","storage":{"size":"1Gi"},"parameters":{"PORT":"1"}}`, "lower-case"},
		"a parameter with a hyphen": {
			`{"version":"17","storage":{"size":"1Gi"},"parameters":{"data-directory":"/"}}`, "lower-case",
		},
		"a parameter with an argument": {
			`{"version":"17","storage":{"size":"1Gi"},"parameters":{"a=b -c c":"d"}}`, "lower-case",
		},
		"a parameter with a NUL": {
			`{"version":"17","storage":{"size":"1Gi"},"parameters":{"work_mem":"1\u0000"}}`, "spec.parameters",
		},
		"an unknown deletion policy": {
			`{"version":"17","storage":{"size":"1Gi"},"deletionPolicy":"Keep"}`, "spec.deletionPolicy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shared.Kubectl(t.Context(),
				`{"apiVersion":"windlass.dev/v1alpha1","kind":"Database","metadata":{"name":"bad"},"spec":`+c.spec+`}`,
				"create", "-n", namespace, "-f", "-")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	for name, want := range map[string]string{
		strings.Repeat("a", 53): "52 characters", "1a": "beginning with a letter", "a.b": "lower-case letters",
	} {
		text, err := json.Marshal(map[string]any{
			"apiVersion": "windlass.dev/v1alpha1", "kind": "Database", "metadata": map[string]any{
				"name": name,
			}, "spec": framework.SmallestDatabase(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shared.Kubectl(t.Context(), string(text), "create", "-n", namespace, "-f", "-"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("creating Database %s: got %v, want an error with %q", name, err, want)
		}
	}
	if made := requests(t, namespace); len(made) > 0 {
		t.Errorf("the controller sent requests for rejected Databases: %v", made)
	}
	// The longest valid names of a Database, of its owner and of its database on the server.
	spec := framework.SmallestDatabase()
	spec.Owner, spec.DatabaseName = strings.Repeat("o", 63), strings.Repeat("d", 63)
	longest := strings.Repeat("a", 52)
	shared.CreateDatabase(t, namespace, longest, spec)
	shared.DatabaseIn(t, namespace, longest, v1alpha1.DatabaseReady)
}

func TestAppWaitsForDatabase(t *testing.T) {
	t.Parallel()
	namespace, spec := shared.NewNamespace(t), smallest()
	spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "shop"}
	shared.CreateApp(t, namespace, "storefront", spec)
	waiting := shared.AppReason(t, namespace, "storefront", "DependencyMissing")
	ready := meta.FindStatusCondition(waiting.Status.Conditions, "Ready")
	if !strings.Contains(ready.Message, "Database shop") {
		t.Errorf("the message is %q, want a message with Database shop", ready.Message)
	}
	shared.CreateDatabase(t, namespace, "shop", framework.SmallestDatabase())
	shared.AppIn(t, namespace, "storefront", v1alpha1.AppReady)
	d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "storefront", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys := shared.Credentials(t, namespace, "shop").Data
	for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
		if from := variable.ValueFrom.SecretKeyRef; from.Name != "shop-credentials" || len(keys[from.Key]) == 0 {
			t.Errorf("variable %s uses the key %s of Secret %s", variable.Name, from.Key, from.Name)
		}
	}
	// A new password replaces the Pods of the App, and goes to the server.
	digest, revision := podDigest(t, namespace, "storefront"), settingsRevision(t, namespace)
	patchSecret(t, namespace, "shop-credentials", `{"stringData":{"password":"changed"}}`)
	framework.Eventually(t, "the Pods of the App to be replaced, and the settings to change",
		func(context.Context) (bool, error) {
			return podDigest(t, namespace, "storefront") != digest && settingsRevision(t, namespace) != revision, nil
		})
	shared.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
	shared.AppIn(t, namespace, "storefront", v1alpha1.AppReady)
}
