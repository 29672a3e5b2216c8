package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/httpserver"
)

const (
	oldAt = `{"apiVersion":"cnat.programming-kubernetes.info/v1alpha1","kind":"At","metadata":{"name":"a",` +
		`"namespace":"b"},"spec":{"command":"ls"}}`
	newAt = `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At","metadata":{"name":"a","namespace":"b"},` +
		`"spec":{"command":["/bin/sh","-c","ls"]}}`
)

// reviewOf returns a ConversionReview that requests objects as v1.
func reviewOf(objects ...string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",`+
		`"desiredAPIVersion":"cnat.programming-kubernetes.info/v1","objects":[%s]}}`, strings.Join(objects, ","))
}

func do(t testing.TB, method, path, contentType string, body io.Reader) *http.Response {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, body)
	request.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	newHandler().ServeHTTP(recorder, request)
	return recorder.Result()
}

func TestHandlerConvertsObjectsOfReview(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		response := do(t, "POST", "/convert", contentType, strings.NewReader(reviewOf(oldAt, newAt, oldAt)))
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
			t.Fatal(err)
		}
		if review.Kind != "ConversionReview" || review.APIVersion != "apiextensions.k8s.io/v1" || review.Request != nil {
			t.Errorf("it is answered with %s %s, request %v", review.APIVersion, review.Kind, review.Request)
		}
		if review.Response.UID != "u" || review.Response.Result.Status != metav1.StatusSuccess {
			t.Errorf("it is answered with %+v", review.Response)
		}
		if len(review.Response.ConvertedObjects) != 3 {
			t.Fatalf("%d objects are returned", len(review.Response.ConvertedObjects))
		}
		for i, o := range review.Response.ConvertedObjects {
			if string(o.Raw) != newAt {
				t.Errorf("objects[%d] is %s", i, o.Raw)
			}
		}
	}
}

func TestHandlerRejectsInvalidRequests(t *testing.T) {
	const json = "application/json"
	tests := []struct {
		name, method, path, contentType string
		body                            io.Reader
		code                            int
		want                            string
	}{
		{"another method", "GET", "/convert", json, nil, 405, "Method Not Allowed"},
		{"another path", "POST", "/", json, nil, 404, "not found"},
		{
			"another content type", "POST", "/convert", "application/yaml", nil, 415,
			`"application/yaml" is not application/json`,
		},
		{"no body", "POST", "/convert", json, nil, 400, "reading the ConversionReview"},
		{"no JSON", "POST", "/convert", json, strings.NewReader("x"), 400, "reading the ConversionReview"},
		{
			"null", "POST", "/convert", json, strings.NewReader("null"), 400,
			"not apiextensions.k8s.io/v1, Kind=ConversionReview",
		},
		{
			"another kind", "POST", "/convert", json, strings.NewReader(oldAt), 400,
			"the request is cnat.programming-kubernetes.info/v1alpha1, Kind=At",
		},
		{"an older review", "POST", "/convert", json,
			strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}`), 400, "v1beta1"},
		{"a review without a request", "POST", "/convert", json,
			strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`), 400, "has no request"},
		{
			"a body that breaks off", "POST", "/convert", json, iotest.ErrReader(io.ErrUnexpectedEOF), 400,
			"reading the request",
		},
		{"objects that are no list", "POST", "/convert", json,
			strings.NewReader(strings.Replace(reviewOf(), "[]", "{}", 1)), 400, "objects is not a list"},
		{"a list in place of the UID", "POST", "/convert", json,
			strings.NewReader(strings.Replace(reviewOf(), `"u"`, "[]", 1)), 400, "cannot unmarshal array"},
		{"more after the review", "POST", "/convert", json,
			strings.NewReader(reviewOf() + "{}"), 400, "after top-level value"},
		{"values nested too deeply", "POST", "/convert", json,
			strings.NewReader(reviewOf(strings.Repeat("[", 1<<20))), 400, "exceeded max depth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := do(t, tt.method, tt.path, tt.contentType, tt.body)
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != tt.code || !strings.Contains(string(body), tt.want) {
				t.Errorf("got %d %s, want %d %s", response.StatusCode, body, tt.code, tt.want)
			}
		})
	}
}

// largeReview is a valid review that is larger than smallBody.
var largeReview = reviewOf(strings.Repeat(oldAt+",", smallBody/len(oldAt)) + oldAt)

// send sends a review to h from the address of a client.
func send(t *testing.T, h *handler, from, review string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	request.RemoteAddr = from
	recorder := httptest.NewRecorder()
	h.convert(recorder, request)
	return recorder
}

func TestHandlerLimitsLargeBodiesAtATime(t *testing.T) {
	h := &handler{large: httpserver.NewQuota(maxLargeBodies, maxLargeBodiesPerAddress)}
	const attacker, other = "192.0.2.1:1", "192.0.2.2:1"
	var inFlight []func()
	for range maxLargeBodiesPerAddress {
		giveBack, ok := h.large.Take(attacker)
		if !ok {
			t.Fatal("the limit is reached too early")
		}
		inFlight = append(inFlight, giveBack)
	}
	for range maxLargeBodies + 1 { // a request that has ended does not count
		if got := send(t, h, other, largeReview); got.Code != http.StatusOK {
			t.Errorf("a large body from another address: status %d %s", got.Code, got.Body)
		}
		if got := send(t, h, attacker, reviewOf(oldAt)); got.Code != http.StatusOK {
			t.Errorf("a small body from the same address: status %d %s", got.Code, got.Body)
		}
		got := send(t, h, attacker, largeReview)
		if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" {
			t.Errorf("a large body from the same address: status %d %s", got.Code, got.Body)
		}
	}
	inFlight[0]()
	if got := send(t, h, attacker, largeReview); got.Code != http.StatusOK {
		t.Errorf("after a large body has ended: status %d %s", got.Code, got.Body)
	}
}

func TestLargeBodyWaitsForItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{large: httpserver.NewQuota(1, 1), patience: placeTimeout}
		giveBack, _ := h.large.Take("192.0.2.1:1")
		response := make(chan *httptest.ResponseRecorder)
		go func() { response <- send(t, h, "192.0.2.1:1", largeReview) }()
		synctest.Wait()
		giveBack()
		if got := <-response; got.Code != http.StatusOK {
			t.Errorf("status %d %s", got.Code, got.Body)
		}
	})
}

// TestHandlerKeepsOnlyWhatItNeeds sends bodies with up to a million values, and checks how much memory the handler
// allocates.
func TestHandlerKeepsOnlyWhatItNeeds(t *testing.T) {
	unknown := func(size int) string { // members that a ConversionReview does not have
		var members strings.Builder
		for i := 0; members.Len() < size-16; i++ {
			fmt.Fprintf(&members, "%q:0,", strconv.FormatInt(int64(i), 36))
		}
		return "{" + members.String() + reviewOf(oldAt)[1:]
	}
	for name, tt := range map[string]struct {
		body  string
		code  int
		want  string
		taken uint64 // bytes; with the race detector, a buffer takes twice its size
	}{
		"unknown members of more than 4 MiB": {unknown(maxBody + 1<<20), 413, "more than 4194304 bytes", 3 * maxBody},
		"unknown members of almost 4 MiB":    {unknown(maxBody - 1024), 200, "Success", 3 * maxBody},
		"objects, of which the first one cannot be converted": {
			reviewOf(strings.Repeat("{},", (maxBody-1024)/3) + "{}"), 200, "objects[0]", 8 * maxBody,
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		response := do(t, http.MethodPost, "/convert", "application/json", strings.NewReader(tt.body))
		runtime.ReadMemStats(&after)
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != tt.code || !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: %d %s, %v, want %d %s", name, response.StatusCode, text, err, tt.code, tt.want)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > tt.taken {
			t.Errorf("%s take %d bytes, want at most %d", name, taken, tt.taken)
		}
	}
}

// FuzzHandler checks that no body makes the webhook panic or send a response that the API server rejects.
func FuzzHandler(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", reviewOf(), reviewOf(oldAt), reviewOf(oldAt, newAt), reviewOf("null"), reviewOf("{}"),
		reviewOf("[]"),
		strings.ReplaceAll(reviewOf(newAt), `info/v1","obj`, `info/v1alpha1","obj`),
		reviewOf(strings.ReplaceAll(oldAt, `"name"`,
			`"annotations":{"cnat.programming-kubernetes.info/v1":"{\"spec\":{\"image\":\"i\"}}"},"name"`)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		response := do(t, "POST", "/convert", "application/json", bytes.NewReader(body))
		if response.StatusCode == http.StatusBadRequest {
			return
		}
		if response.StatusCode != http.StatusOK {
			t.Fatalf("status %d", response.StatusCode)
		}
		var asked, answered apiextensionsv1.ConversionReview
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Fatalf("an unreadable review is answered: %v", err)
		}
		if err := json.NewDecoder(response.Body).Decode(&answered); err != nil {
			t.Fatalf("the answer is unreadable: %v", err)
		}
		if answered.Response.UID != asked.Request.UID {
			t.Errorf("UID %q, want %q", answered.Response.UID, asked.Request.UID)
		}
		result := answered.Response.Result
		if result.Status == metav1.StatusSuccess && len(answered.Response.ConvertedObjects) != len(asked.Request.Objects) {
			t.Errorf("%d objects for %d", len(answered.Response.ConvertedObjects), len(asked.Request.Objects))
		}
		if result.Status == metav1.StatusFailure && result.Message == "" {
			t.Error("a failure says nothing")
		}
	})
}
