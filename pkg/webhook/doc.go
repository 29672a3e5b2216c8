// Package webhook serves the conversion of At to the API server, over TLS, with a
// certificate that it makes and renews by itself. Every replica of the controller
// runs it, leader or not.
//
// server.go listens; handler.go speaks HTTP; package conversion converts; package
// certificate keeps the certificate, and tells the API server whom to trust and
// where to call.
package webhook
