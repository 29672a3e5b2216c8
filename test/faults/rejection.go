package faults

import (
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rejectionReasons maps a status code to the reason that the API server gives with it.
var rejectionReasons = map[int]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

// rejection returns the API server's response for a fault in rejections.
func rejection(fault string) response {
	code, _ := strconv.Atoi(fault) // all rejections are numbers
	body, _ := json.Marshal(failureStatus(code, rejectionReasons[code]))
	header := http.Header{}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return response{status: code, header: header, body: body}
}
