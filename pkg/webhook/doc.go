// Package webhook serves the conversion webhook of At over TLS. It creates and renews its certificate itself.
// Every replica of the controller runs the webhook, leader or not.
//
// server.go listens; handler.go limits the bodies of requests and handles them; review.go decodes ConversionReviews
// and writes the responses. Package conversion converts Ats. Package certificate maintains the certificate, and
// writes its CA and the address of the webhook into the CustomResourceDefinition.
package webhook
