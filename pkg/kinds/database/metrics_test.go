package database

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// series returns the lines of /metrics that begin with a prefix.
func series(t *testing.T, prefix string) []string {
	t.Helper()
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics",
		nil))
	var found []string
	for line := range strings.Lines(response.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestRestartsOfPostgreSQLAreCounted(t *testing.T) {
	pod := func(uid, app, container string, restarts int32) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "db-0", UID: types.UID(uid), Labels: map[string]string{
					nameLabel: app, instanceLabel: "db",
				},
			},
			Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{
					{Name: "sidecar", RestartCount: restarts * 7}, {Name: container, RestartCount: restarts},
				},
			},
		}
	}
	handler := restartCounter()
	// The restarts before this process started do not count.
	handler.OnAdd(pod("1", nameLabelValue, containerName, 5), true)
	handler.OnUpdate(pod("1", nameLabelValue, containerName, 5), pod("1", nameLabelValue, containerName, 7)) // 2 restarts
	handler.OnUpdate(pod("1", nameLabelValue, containerName, 7), pod("1", nameLabelValue, containerName, 7)) // no restart
	handler.OnUpdate(pod("1", nameLabelValue, containerName, 7), pod("2", nameLabelValue, containerName, 9)) // another Pod
	// the status was cleared
	handler.OnUpdate(pod("2", nameLabelValue, containerName, 9), pod("2", nameLabelValue, containerName, 0))
	// a Pod of another application
	handler.OnUpdate(pod("3", "web", containerName, 0), pod("3", "web", containerName, 4))
	handler.OnUpdate(pod("4", nameLabelValue, "other", 0), pod("4", nameLabelValue, "other", 4)) // another container
	got := series(t, "windlass_database_restarts_total")
	if len(got) != 1 || got[0] != "windlass_database_restarts_total 2" {
		t.Errorf("got %q, want 2 restarts", got)
	}
}

func TestVolumesAreListedUpToLimit(t *testing.T) {
	lister := newVolumeLister()
	database := func(n int) *v1alpha1.Database {
		return &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("db-", n)}}
	}
	for n := range maxVolumes + 100 {
		lister.OnAdd(database(n), true)
	}
	const prefix = `windlass_database_volume_info{namespace="shop",persistentvolumeclaim="db-`
	if n := len(series(t, prefix)); n != maxVolumes {
		t.Errorf("there are %d series, want %d", n, maxVolumes)
	}
	for n := range maxVolumes {
		lister.OnDelete(cache.DeletedFinalStateUnknown{Key: fmt.Sprint("shop/db-", n), Obj: database(n)})
	}
	lister.OnUpdate(database(maxVolumes), database(maxVolumes)) // there is room again
	if got, want := series(t, prefix), fmt.Sprintf(`%s%d"} 1`, prefix, maxVolumes); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
