// Package certificate creates the serving certificate of the webhook, and writes the caBundle of the
// CustomResourceDefinition so that the API server trusts the certificate.
//
// One Secret has both the certificate and the CA that signed it. Every replica watches this Secret and the
// CustomResourceDefinition, and reconciles them without a leader. Each reconcile reads both objects and takes
// at most one step. A precondition makes the write fail if another replica has written first. No step makes a
// conversion fail. For example, these are the steps to a new CA:
//
//	Secret: ca.key, ca.crt = new + old
//	CustomResourceDefinition: caBundle = new + old
//	                              ... wait for the API servers (Options.Settle)
//	Secret: tls.crt, tls.key signed by the new CA; the replicas serve them
//	                              ... wait for the replicas (Options.Settle)
//	Secret: ca.crt = new
//	CustomResourceDefinition: caBundle = new
//
// If a cluster has several installations, one of them serves the webhook, and the others do not change the
// CustomResourceDefinition: see owner.go.
//
// plan.go chooses the step. Start reading there.
package certificate
