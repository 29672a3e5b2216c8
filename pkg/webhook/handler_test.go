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

func TestHandlerReadsMembersInAnyOrder(t *testing.T) {
	body := `{"request":{"objects":[` + oldAt + `],"desiredAPIVersion":"cnat.programming-kubernetes.info/v1","uid":"u"},` +
		`"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}`
	var review apiextensionsv1.ConversionReview
	response := do(t, http.MethodPost, "/convert", "application/json", strings.NewReader(body))
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		t.Fatal(err)
	}
	objects := review.Response.ConvertedObjects
	if len(objects) != 1 || string(objects[0].Raw) != newAt || review.Response.UID != "u" {
		t.Errorf("the response is %+v", review.Response)
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
		{"no content type", "POST", "/convert", "", nil, 415, `"" is not application/json`},
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
			"a body that breaks off", "POST", "/convert", json, io.MultiReader(strings.NewReader("{"), broken{}), 400,
			"reading the request",
		},
		{
			"an object without an end", "POST", "/convert", json,
			io.MultiReader(strings.NewReader(strings.TrimSuffix(reviewOf(), "]}}")), strings.NewReader(`"`), endless{}),
			413, "more than 4194304 bytes",
		},
		{
			"objects without an end", "POST", "/convert", json,
			io.MultiReader(strings.NewReader(strings.TrimSuffix(reviewOf(oldAt), "]}}")), &repeated{
				text: "," + oldAt + strings.Repeat(" ", 1<<18),
			}), 413, "more than 4194304 bytes",
		},
		{"objects that are no list", "POST", "/convert", json,
			strings.NewReader(strings.Replace(reviewOf(), "[]", "{}", 1)), 400, "objects is not a list"},
		{"a list in place of the UID", "POST", "/convert", json,
			strings.NewReader(strings.Replace(reviewOf(), `"u"`, "[]", 1)), 400, "cannot unmarshal array"},
		{"more after the review", "POST", "/convert", json,
			strings.NewReader(reviewOf() + "{}"), 400, "after top-level value"},
		{"values nested too deeply", "POST", "/convert", json,
			strings.NewReader(reviewOf(strings.Repeat("[", 1<<20))), 400, "exceeded max depth"},
		{"a body without an end", "POST", "/convert", json, endless{}, 413, "more than 4194304 bytes"},
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

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// repeated is a reader that repeats a text without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// largeReview is a valid review that counts as large.
var largeReview = reviewOf(strings.Repeat(oldAt+",", smallBody/len(oldAt)) + oldAt)

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
	send := func(from, review string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(review))
		request.Header.Set("Content-Type", "application/json")
		request.RemoteAddr = from
		recorder := httptest.NewRecorder()
		h.convert(recorder, request)
		return recorder
	}
	for range maxLargeBodies + 1 { // a request that has ended does not count
		if got := send(other, largeReview); got.Code != http.StatusOK {
			t.Errorf("a large body from another address: status %d %s", got.Code, got.Body)
		}
		if got := send(attacker, reviewOf(oldAt)); got.Code != http.StatusOK {
			t.Errorf("a small body from the same address: status %d %s", got.Code, got.Body)
		}
		got := send(attacker, largeReview)
		if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" {
			t.Errorf("a large body from the same address: status %d %s", got.Code, got.Body)
		}
	}
	inFlight[0]()
	if got := send(attacker, largeReview); got.Code != http.StatusOK {
		t.Errorf("after a large body has ended: status %d %s", got.Code, got.Body)
	}
}

func TestLargeBodyWaitsForItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{large: httpserver.NewQuota(1, 1), patience: placeTimeout}
		giveBack, _ := h.large.Take("192.0.2.1:1")
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(largeReview))
		request.Header.Set("Content-Type", "application/json")
		recorder, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			h.convert(recorder, request)
		}()
		synctest.Wait()
		giveBack()
		<-done
		if recorder.Code != http.StatusOK {
			t.Errorf("status %d %s", recorder.Code, recorder.Body)
		}
	})
}

// TestHandlerKeepsNothingOfUnknownMembers sends half a million members that a ConversionReview does not have.
func TestHandlerKeepsNothingOfUnknownMembers(t *testing.T) {
	for name, tt := range map[string]struct {
		size, code int
		taken      uint64 // bytes; with the race detector, a buffer takes twice its size
	}{
		"a body of more than 4 MiB": {maxBody + 1<<20, http.StatusRequestEntityTooLarge, 3 * maxBody},
		"a body of almost 4 MiB":    {maxBody - 1024, http.StatusOK, 3 * maxBody},
	} {
		var members strings.Builder
		for i := 0; members.Len() < tt.size-16; i++ {
			fmt.Fprintf(&members, "%q:0,", strconv.FormatInt(int64(i), 36))
		}
		body := strings.NewReader("{" + members.String() + reviewOf(oldAt)[1:])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		response := do(t, http.MethodPost, "/convert", "application/json", body)
		runtime.ReadMemStats(&after)
		if response.StatusCode != tt.code {
			t.Errorf("%s: status %d, want %d", name, response.StatusCode, tt.code)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > tt.taken {
			t.Errorf("%s takes %d bytes, want at most %d", name, taken, tt.taken)
		}
	}
}

// TestHandlerStopsAtFirstObjectThatCannotBeConverted sends a million small objects in one review.
func TestHandlerStopsAtFirstObjectThatCannotBeConverted(t *testing.T) {
	body := reviewOf(strings.Repeat("{},", (maxBody-1024)/3) + "{}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response := do(t, http.MethodPost, "/convert", "application/json", strings.NewReader(body))
	runtime.ReadMemStats(&after)
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), "objects[0]") {
		t.Errorf("the response is %s, %v", text, err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 8*maxBody {
		t.Errorf("the request takes %d bytes", taken)
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
