package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/httpserver"
	"windlass.dev/windlass/pkg/webhook/certificate"
)

// Limits of the bodies of requests, since any client that reaches the port may send requests. Package httpserver limits
// the connections.
const (
	// maxBody is the largest size of a body, in bytes. API servers send one object in each ConversionReview, also when
	// they serve a list. They reject objects larger than 3 MiB (MaxRequestBodyBytes in
	// k8s.io/apiserver/pkg/server/config.go).
	maxBody = 4 << 20
	// smallBody is the size in bytes up to which bodies are handled without further limits: every connection may send such
	// a body. Most Ats are smaller than 4 KiB.
	smallBody = 16 << 10
	// maxLargeBodies is the largest number of larger bodies at a time. maxLargeBodiesPerAddress is the largest number of
	// them from one address, which leaves places for other clients.
	maxLargeBodies           = 4
	maxLargeBodiesPerAddress = 2
	// placeTimeout is how long a request with a larger body waits for a place among these bodies. Meanwhile, smallBody
	// bytes of the body are in memory. placeRecheck is the time between two checks for a free place.
	placeTimeout = 3 * time.Second
	placeRecheck = 10 * time.Millisecond
)

// requestError rejects a request with an HTTP status instead of a ConversionReview.
type requestError struct {
	code int
	err  error
}

func (e *requestError) Error() string { return e.err.Error() }

func badRequest(format string, args ...any) *requestError {
	return &requestError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// newHandler returns a handler that responds to ConversionReviews.
func newHandler() http.Handler {
	h := &handler{large: httpserver.NewQuota(maxLargeBodies, maxLargeBodiesPerAddress), patience: placeTimeout}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+certificate.Path, h.convert)
	return mux
}

// handler converts the objects of ConversionReviews.
type handler struct {
	large    *httpserver.Quota // of bodies larger than smallBody
	patience time.Duration     // how long a larger body waits for its place
	// converting is held while the objects of a large body are converted and encoded. That can take 40 times the memory of
	// the body: an empty word of a command has three bytes of JSON, and takes 16 bytes several times.
	converting sync.Mutex
}

func (h *handler) convert(w http.ResponseWriter, r *http.Request) {
	logger := klog.FromContext(r.Context())
	body, done, rejected := h.readBody(w, r)
	defer done()
	var review *review
	if rejected == nil {
		review, rejected = readReview(body)
	}
	if rejected != nil {
		conversions.WithLabelValues(resultRejected).Inc()
		logger.V(2).Info("Rejected a request", "code", rejected.code, "err", rejected, "from", r.RemoteAddr)
		if rejected.code == http.StatusTooManyRequests {
			httpserver.Busy(w)
			return
		}
		http.Error(w, rejected.Error(), rejected.code)
		return
	}
	response, err := h.respond(review)
	result := resultSuccess
	if err != nil {
		result = resultFailed
		logger.V(2).Info("Rejected a conversion", "desired", review.Request.DesiredAPIVersion, "err", err)
	}
	conversions.WithLabelValues(result).Inc()
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(response); err != nil {
		logger.V(2).Info("Failed to send the response to a ConversionReview", "err", err)
	}
}

// respond returns the response to r. If an object cannot be converted, respond also returns the reason as an error.
func (h *handler) respond(r *review) ([]byte, error) {
	if len(r.Request.Objects) > smallBody {
		h.converting.Lock()
		defer h.converting.Unlock()
	}
	return r.respond()
}

// place waits for a place for a large body. giveBack frees the place.
func (h *handler) place(r *http.Request) (giveBack func(), err error) {
	take := func(context.Context) (ok bool, err error) {
		giveBack, ok = h.large.Take(r.RemoteAddr)
		return ok, nil
	}
	err = wait.PollUntilContextTimeout(r.Context(), placeRecheck, h.patience, true, take)
	return giveBack, err
}

// readBody reads the body of a request. The caller must call done after the response.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) (body []byte, done func(), rejected *requestError) {
	done = func() {}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, done, &requestError{http.StatusUnsupportedMediaType,
			fmt.Errorf("content type %q is not application/json", r.Header.Get("Content-Type"))}
	}
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	var buffer bytes.Buffer
	_, err := buffer.ReadFrom(io.LimitReader(limited, smallBody+1))
	if err == nil && buffer.Len() > smallBody {
		if done, err = h.place(r); err != nil {
			return nil, func() {}, &requestError{http.StatusTooManyRequests, errors.New("too many large requests are in flight")}
		}
		size := r.ContentLength
		if size < 0 || size > maxBody {
			size = maxBody
		}
		buffer.Grow(int(size) + bytes.MinRead) // a buffer that grows step by step would take up to eight times its content
		_, err = buffer.ReadFrom(limited)
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, done, &requestError{http.StatusRequestEntityTooLarge,
			fmt.Errorf("the request has more than %d bytes", maxBody)}
	case err != nil:
		return nil, done, badRequest("reading the request: %w", err)
	}
	return buffer.Bytes(), done, nil
}
