package webhook

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	conversions = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "windlass_webhook_conversions_total",
		Help: "ConversionReviews by result: success; failed if an object cannot be converted; rejected if the webhook did " +
			"not read the request.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	// ready and certificateExpiry have no series in a process without a webhook.
	ready = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "windlass_webhook_ready",
		Help: "1 if this process listens for conversions with a certificate that the API server trusts; " +
			"otherwise 0.",
		StabilityLevel: metrics.ALPHA,
	}, nil)
	certificateExpiry = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "windlass_webhook_certificate_expiration_timestamp_seconds",
		Help:           "Unix time at which the serving certificate of the webhook expires.",
		StabilityLevel: metrics.ALPHA,
	}, nil)
)

// The values of the label result.
const (
	resultSuccess  = "success"
	resultFailed   = "failed"
	resultRejected = "rejected"
)

func init() {
	legacyregistry.MustRegister(conversions, ready, certificateExpiry)
	for _, result := range []string{resultSuccess, resultFailed, resultRejected} {
		conversions.WithLabelValues(result).Add(0)
	}
}

// UpdateMetrics sets the metrics of the webhook that change with time. It is called before the metrics are read.
func (s *Server) UpdateMetrics() {
	value := 0.0
	if s.Ready() == nil {
		value = 1
	}
	ready.WithLabelValues().Set(value)
	if serving, err := s.GetCertificate(nil); err == nil {
		certificateExpiry.WithLabelValues().Set(float64(serving.Leaf.NotAfter.Unix()))
	}
}
