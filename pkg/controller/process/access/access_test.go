package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// judges is an API server that knows the user prometheus with the token "good", and the user shop with the token
// "tenant". Only prometheus may get /metrics.
type judges struct {
	*fake.Clientset
	down error
}

func newJudges() *judges {
	j := &judges{Clientset: fake.NewClientset()}
	j.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		name, known := map[string]string{"good": "prometheus", "tenant": "shop"}[review.Spec.Token]
		review.Status.Authenticated = known
		review.Status.User = authenticationv1.UserInfo{
			Username: name, Groups: []string{"group"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p-0"}},
		}
		return true, review, j.down
	})
	j.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		s := review.Spec
		review.Status.Allowed = s.User == "prometheus" && len(s.Groups) == 1 && s.Extra["pod"][0] == "p-0" &&
			*s.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		return true, review, nil
	})
	return j
}

func newHandler(j *judges) (http.Handler, *testingclock.FakePassiveClock) {
	clk := testingclock.NewFakePassiveClock(time.Now())
	return New(j, clk).Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "served")
	})), clk
}

func ask(t *testing.T, handler http.Handler, path, authorization, from string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.RemoteAddr = from
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

func TestProtectServesUsersThatMayGetPath(t *testing.T) {
	handler, _ := newHandler(newJudges())
	for name, c := range map[string]struct {
		path, authorization string
		status              int
	}{
		"a user with the permission":            {"/metrics", "Bearer good", http.StatusOK},
		"a scheme in lower case":                {"/metrics", "bearer good", http.StatusOK},
		"no token":                              {"/metrics", "", http.StatusUnauthorized},
		"an empty token":                        {"/metrics", "Bearer ", http.StatusUnauthorized},
		"another scheme":                        {"/metrics", "Basic good", http.StatusUnauthorized},
		"an unknown token":                      {"/metrics", "Bearer bad", http.StatusUnauthorized},
		"a user without the permission":         {"/metrics", "Bearer tenant", http.StatusForbidden},
		"another path":                          {"/debug/pprof/heap", "Bearer good", http.StatusForbidden},
		"a path that resembles the allowed one": {"/metrics/", "Bearer good", http.StatusForbidden},
		"a long path": {
			"/" + strings.Repeat("m", maxPath), "Bearer good", http.StatusRequestURITooLong,
		},
	} {
		t.Run(name, func(t *testing.T) {
			response := ask(t, handler, c.path, c.authorization, "10.0.0.1:4000")
			if response.Code != c.status {
				t.Errorf("status %d, want %d: %s", response.Code, c.status, response.Body)
			}
			if served := response.Body.String() == "served"; served != (c.status == http.StatusOK) {
				t.Errorf("served: %v", served)
			}
			if header := response.Header().
				Get("WWW-Authenticate"); (header == "Bearer") != (c.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is %q", header)
			}
			if header := response.Header().Get("Connection"); (header == "close") != (c.status != http.StatusOK) {
				t.Errorf("Connection is %q", header)
			}
		})
	}
}

func TestProtectReusesAnswerForAMinute(t *testing.T) {
	server := newJudges()
	handler, clk := newHandler(server)
	for range 100 {
		if status := ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000").Code; status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	if n := len(server.Actions()); n != 2 {
		t.Errorf("100 requests caused %d requests to the API server, want 2", n)
	}
	clk.SetTime(clk.Now().Add(allowedFor + time.Second))
	ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000")
	if n := len(server.Actions()); n != 4 {
		t.Errorf("after %s, there were %d requests to the API server, want 4", allowedFor, n)
	}
}

func TestClientThatTriesTokensDelaysNoOtherClient(t *testing.T) {
	server := newJudges()
	handler, clk := newHandler(server)
	rejected := 0
	for n := range 1000 {
		if ask(t, handler, "/metrics", fmt.Sprintf("Bearer guess-%d", n),
			"10.0.0.66:4000").Code == http.StatusTooManyRequests {
			rejected++
		}
	}
	if n := len(server.Actions()); n != burst || rejected != 1000-burst {
		t.Errorf("1000 tokens caused %d reviews, want %d; %d were rejected", n, burst, rejected)
	}
	if status := ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000").Code; status != http.StatusOK {
		t.Errorf("another client: status %d", status)
	}
	clk.SetTime(clk.Now().Add(time.Second))
	if status := ask(t, handler, "/metrics", "Bearer last", "10.0.0.66:5000").Code; status != http.StatusUnauthorized {
		t.Errorf("the client one second later: status %d", status)
	}
}

// TestClientWithTheSameAddressDoesNotKeepPrometheusOut covers clients behind NAT.
func TestClientWithTheSameAddressDoesNotKeepPrometheusOut(t *testing.T) {
	handler, clk := newHandler(newJudges())
	const address = "10.0.0.1:4000"
	ask(t, handler, "/metrics", "Bearer good", address)
	clk.SetTime(clk.Now().Add(allowedFor + time.Second))
	for n := range 100 {
		ask(t, handler, "/metrics", fmt.Sprintf("Bearer guess-%d", n), address)
	}
	if status := ask(t, handler, "/metrics", "Bearer good", address).Code; status != http.StatusOK {
		t.Errorf("Prometheus: status %d", status)
	}
	if status := ask(t, handler, "/metrics", "Bearer other", address).Code; status != http.StatusTooManyRequests {
		t.Errorf("the other client: status %d", status)
	}
}

// TestRevokedPermissionIsLimitedAgain checks that requests of a user whose permission was revoked are rejected, and
// that the limit applies to this user again.
func TestRevokedPermissionIsLimitedAgain(t *testing.T) {
	server := newJudges()
	handler, clk := newHandler(server)
	ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000")
	server.PrependReactor("create", "subjectaccessreviews", func(
		action clienttesting.Action,
	) (bool, runtime.Object, error) {
		return true, action.(clienttesting.CreateAction).GetObject(), nil // not allowed
	})
	clk.SetTime(clk.Now().Add(allowedFor + time.Second))
	if status := ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000").Code; status != http.StatusForbidden {
		t.Errorf("after the permission was revoked: status %d", status)
	}
	for n := range 100 {
		ask(t, handler, "/metrics", fmt.Sprintf("Bearer guess-%d", n), "10.0.0.1:4000")
	}
	clk.SetTime(clk.Now().Add(rejectedFor + time.Second))
	for n := range 100 {
		ask(t, handler, "/metrics", fmt.Sprintf("Bearer further-%d", n), "10.0.0.1:4000")
	}
	if status := ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000").Code; status != http.StatusTooManyRequests {
		t.Errorf("after 200 other requests: status %d", status)
	}
}

func TestProtectRejectsRequestsWhileAPIServerDoesNotAnswer(t *testing.T) {
	server := newJudges()
	server.down = errors.New("no route to host")
	handler, _ := newHandler(server)
	response := ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000")
	if response.Code != http.StatusInternalServerError {
		t.Errorf("status %d: %s", response.Code, response.Body)
	}
	server.down = nil // errors are not cached
	if status := ask(t, handler, "/metrics", "Bearer good", "10.0.0.1:4000").Code; status != http.StatusOK {
		t.Errorf("after the API server is back: status %d", status)
	}
}
