//go:build integration

package integration

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// trap stands before an API server, and has the controller die at one of its writes to a
// Platform or its children.
type trap struct {
	server http.Handler

	mu    sync.Mutex
	about *regexp.Regexp // the paths of those writes; nil if it is not set
	left  int            // how many of them come before
	late  bool           // whether the write is carried out
	hit   chan struct{}  // closed when it was caught
}

// set has it catch the write after so many others, and returns what is closed then.
func (s *trap) set(namespace string, after int, late bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = regexp.MustCompile(`/platforms/` + namespace + `(/status)?$|/namespaces/` + namespace + `/(apps|ats)(/` + namespace + `-[a-z]+)?$`)
	s.left, s.late, s.hit = after, late, make(chan struct{})
	return s.hit
}

// release lets all through from now on.
func (s *trap) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = nil
}

// catches tells whether this is the write, for which it returns what is to be closed, or
// one that comes after it.
func (s *trap) catches(r *http.Request) (hit chan<- struct{}, late, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet || s.about == nil || !s.about.MatchString(r.URL.Path) {
		return nil, false, false
	}
	s.left--
	if s.left == -1 {
		hit = s.hit
	}
	return hit, s.late, s.left < -1
}

// ServeHTTP implements http.Handler.
func (s *trap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hit, late, after := s.catches(r)
	if hit == nil && !after {
		s.server.ServeHTTP(w, r)
		return
	}
	if hit != nil {
		if late {
			s.server.ServeHTTP(httptest.NewRecorder(), r)
		}
		close(hit)
	}
	<-r.Context().Done() // the controller hears nothing more
}

// TestAKilledControllerGoesOnWhereItWas kills the controller at each write of each
// transition, before the API server has it and after, and starts another.
func TestAKilledControllerGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	p, s := ownPlace(t), &trap{}
	kubeconfig := inFront(t, p.Cluster, func(server http.Handler) http.Handler {
		s.server = server
		return s
	})
	start := func() *place.Process {
		return place.Launch(t, p.Cluster, "--kubeconfig", kubeconfig, "--leader-elect=false")
	}
	running, kills := start(), 0
	defer func() { running.Terminate() }()
	names := []string{}
	for name := range transitions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		tr := transitions[name]
		// One run for each write and each of its sides, until a run has no write more.
		for run, caught := 0, true; caught; run++ {
			t.Run(name, func(t *testing.T) {
				namespace := namespace(t, p)
				before := tr.begin(t, p, namespace)
				hit := s.set(namespace, run/2, run%2 == 1)
				tr.act(t, p, namespace)
				if caught = happens(t, p, namespace, hit); caught {
					running.Kill()
					kills++
				}
				s.release() // before another starts, which is to be heard
				if caught {
					running = start()
				}
				tr.end(t, p, namespace, before)
			})
		}
	}
	t.Logf("the controller was killed %d times in %d transitions", kills, len(transitions))
	if kills < 2*len(transitions) {
		t.Error("that is less than twice in each")
	}
}

// happens waits until the controller is caught, and is false if it comes to its end
// before.
func happens(t *testing.T, p *place.Place, platform string, hit <-chan struct{}) (caught bool) {
	t.Helper()
	world.Eventually(t, "the controller to be caught, or to come to its end", func(ctx context.Context) (bool, error) {
		select {
		case <-hit:
			caught = true
			return true, nil
		default:
		}
		now, err := p.Windlass.WindlassV1alpha1().Platforms().Get(ctx, platform, metav1.GetOptions{})
		return err == nil && now.Status.ObservedGeneration == now.Generation && now.Status.Phase == v1alpha1.PlatformReady, err
	})
	return caught
}

// namespace returns one that is not deleted, as a cluster of one test's own is.
func namespace(t *testing.T, p *place.Place) string {
	t.Helper()
	made, err := p.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}
