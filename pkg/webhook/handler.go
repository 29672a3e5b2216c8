package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/webhook/certificate"
	"windlass.dev/windlass/pkg/webhook/conversion"
)

// maxBody limits a request, in bytes. All objects of a list come in one.
const maxBody = 64 << 20

// requestError is a request that is no ConversionReview, and so gets none back.
type requestError struct {
	code int
	err  error
}

func (e *requestError) Error() string { return e.err.Error() }

func badRequest(format string, args ...any) *requestError {
	return &requestError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// newHandler answers ConversionReviews.
func newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+certificate.Path, convert)
	return mux
}

func convert(w http.ResponseWriter, r *http.Request) {
	logger := klog.FromContext(r.Context())
	review, refused := readReview(w, r)
	if refused != nil {
		logger.V(2).Info("Refused a request", "code", refused.code, "err", refused, "from", r.RemoteAddr)
		http.Error(w, refused.Error(), refused.code)
		return
	}
	review.Response = conversion.Review(review.Request)
	if result := review.Response.Result; result.Status != metav1.StatusSuccess {
		logger.V(2).Info("Refused a conversion", "desired", review.Request.DesiredAPIVersion, "err", result.Message)
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		logger.V(2).Info("The answer to a conversion did not get through", "err", err)
	}
}

// readReview reads the request of a ConversionReview.
func readReview(w http.ResponseWriter, r *http.Request) (*apiextensionsv1.ConversionReview, *requestError) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, &requestError{http.StatusUnsupportedMediaType,
			fmt.Errorf("content type %q is not application/json", r.Header.Get("Content-Type"))}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &requestError{http.StatusRequestEntityTooLarge,
			fmt.Errorf("the request has more than %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return nil, badRequest("reading the request: %w", err)
	}
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, badRequest("reading the ConversionReview: %w", err)
	}
	if want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"); review.GroupVersionKind() != want {
		return nil, badRequest("the request is %s, not %s", review.GroupVersionKind(), want)
	}
	if review.Request == nil {
		return nil, badRequest("the ConversionReview has no request")
	}
	return review, nil
}
