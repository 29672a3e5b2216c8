package webhook

import (
	"fmt"
	"mime"
	"net/http"
	"runtime"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/webhook/certificate"
)

// maxBody is the largest size of a request, in bytes. One request can contain all objects of a list.
const maxBody = 64 << 20

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
	mux := http.NewServeMux()
	h := &handler{converting: make(chan struct{}, runtime.GOMAXPROCS(0))}
	mux.HandleFunc("POST "+certificate.Path, newMemory().limit(h.convert))
	return mux
}

// handler converts the objects of ConversionReviews. The capacity of converting limits concurrent conversions.
type handler struct{ converting chan struct{} }

func (h *handler) convert(w http.ResponseWriter, r *http.Request) {
	logger := klog.FromContext(r.Context())
	review, refused := h.read(r)
	if refused != nil {
		conversions.WithLabelValues(resultRefused).Inc()
		logger.V(2).Info("Refused a request", "code", refused.code, "err", refused, "from", r.RemoteAddr)
		if refused.code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, refused.Error(), refused.code)
		return
	}
	result := resultSuccess
	if review.failure != nil {
		result = resultFailed
		logger.V(2).Info("Refused a conversion", "desired", review.desired, "err", review.failure)
	}
	conversions.WithLabelValues(result).Inc()
	w.Header().Set("Content-Type", "application/json")
	if err := review.write(w); err != nil {
		logger.V(2).Info("Sending the response to a ConversionReview failed", "err", err)
	}
}

func (h *handler) read(r *http.Request) (*review, *requestError) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, &requestError{http.StatusUnsupportedMediaType,
			fmt.Errorf("content type %q is not application/json", r.Header.Get("Content-Type"))}
	}
	return readReview(r.Body, h.converting)
}
