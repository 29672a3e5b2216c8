//go:build integration

package sharding

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/test/framework"
)

// TestNumberOfShardsChangesDuringRollout repeatedly replaces a replica with a replica that has another number of
// shards. The two replicas run at the same time for a while. Users change Apps during the whole test.
func TestNumberOfShardsChangesDuringRollout(t *testing.T) {
	t.Parallel()
	s := newSharded(t, false)
	previous := s.start(t, "--shards=1")
	users := s.beginToUse(t)
	for _, shards := range []string{"6", "9", "1"} {
		next := s.start(t, "--shards="+shards)
		users.catchUp(t) // while both replicas run
		s.terminate(t, previous)
		users.catchUp(t)
		previous = next
	}
	users.stop()
	if layout := s.layout(t); layout.Shards() != 0 {
		t.Errorf("without shards, the stored layout has %d", layout.Shards())
	}
	s.checkTakeovers(t)
}

// checkTakeovers fails the test if a replica has written to a namespace after another replica has taken over the
// namespace.
func (s *sharded) checkTakeovers(t *testing.T) {
	t.Helper()
	sent, err := writes(s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	writers := map[string][]string{} // of each namespace
	for _, r := range sent {
		namespace, replica := r.ObjectRef.Namespace, r.User.Credential()
		if of := writers[namespace]; !slices.Contains(s.tenants, namespace) || len(of) > 0 && of[len(of)-1] == replica {
			continue
		}
		if slices.Contains(writers[namespace], replica) {
			t.Errorf("%s by %s, after another replica has written to the namespace", r, replica)
		}
		writers[namespace] = append(writers[namespace], replica)
	}
	if len(writers) != len(s.tenants) || len(writers[s.tenants[0]]) < 3 {
		t.Errorf("the audit log has the writers %v", writers)
	}
}

// TestReplicasConvert sends each replica an At to convert, because replicas that do not lead must also convert Ats. At
// first, the first replica cannot read the layout.
func TestReplicasConvert(t *testing.T) {
	t.Parallel()
	s := newSharded(t, false)
	configMaps := s.Kube.CoreV1().ConfigMaps(namespace)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: operator + "-shards"}}
	if _, err := configMaps.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := framework.Begin(t, s.Cluster, fmt.Sprintf("--shards=%d", count))
	t.Cleanup(first.Kill)
	framework.Eventually(t, "the replica to say why it waits", func(context.Context) (bool, error) {
		return bytes.Contains(first.Log.Bytes(), []byte("the ConfigMap does not belong to the operator")), nil
	})
	if first.Ready() {
		t.Error("the replica is ready, although it takes no part")
	}
	if err := configMaps.Delete(t.Context(), theirs.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the replica to be ready", func(context.Context) (bool, error) { return first.Ready(), nil })
	second := s.start(t, "--webhook-url", first.WebhookURL)
	s.settle(t, first, second)
	for _, p := range []*framework.Process{first, second} {
		convert(t, p)
	}
	s.terminate(t, first)
	s.settle(t, second)
	convert(t, second)
}

// convert sends a replica an At to convert, and fails the test unless the replica converts the At.
func convert(t *testing.T, p *framework.Process) {
	t.Helper()
	// this test does not check the certificate
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",` +
		`"desiredAPIVersion":"cnat.programming-kubernetes.info/v1alpha1",` +
		`"objects":[{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At","metadata":{"name":"a"},` +
		`"spec":{"schedule":"2030-01-01T00:00:00Z","command":["echo"]}}]}}`
	response, err := client.Post(p.WebhookURL, "application/json", bytes.NewBufferString(review))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var converted apiextensionsv1.ConversionReview
	if err := json.NewDecoder(response.Body).Decode(&converted); err != nil || converted.Response == nil ||
		len(converted.Response.ConvertedObjects) != 1 {
		t.Errorf("the replica has not converted an At: %+v, %v", converted.Response, err)
	}
}
