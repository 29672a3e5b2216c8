// Package certificate makes the webhook's serving certificate, and keeps the
// CustomResourceDefinition's caBundle such that the API server trusts it.
//
// Both the certificate and the CA that signed it live in one Secret. Every
// replica watches that Secret and the CustomResourceDefinition, and any of them
// puts right what is not, without a leader: each looks at both objects as they
// are, takes one step, and is refused if somebody was faster. No step makes a
// request of the API server fail. So a new CA comes in like this:
//
//	Secret: ca.key, ca.crt = new + old
//	CustomResourceDefinition: caBundle = new + old
//	                              ... the API servers notice (Options.Settle)
//	Secret: tls.crt, tls.key signed by the new CA; the replicas serve them
//	                              ... the replicas notice (Options.Settle)
//	Secret: ca.crt = new
//	CustomResourceDefinition: caBundle = new
//
// Of several installations in one cluster one converts, and the others leave the
// CustomResourceDefinition alone: owner.go.
//
// plan.go decides on the step, and is the place to start reading.
package certificate
