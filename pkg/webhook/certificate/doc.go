// Package certificate creates the serving certificate of the webhook, and writes the caBundle of the
// CustomResourceDefinition so that the API server trusts the certificate.
//
// One Secret has a CA for ten years and a serving certificate for one year, which the CA has signed. Both are renewed
// after two thirds of their lifetimes. Every replica watches this Secret and the CustomResourceDefinition, and
// reconciles them without a leader. Each reconcile reads both objects from the API server and sends at most one write:
// of the Secret, or once the Secret is as desired, of the CustomResourceDefinition. A precondition makes the write fail
// if another replica has written first. A replica serves with a certificate once the caBundle of the
// CustomResourceDefinition has its CA.
//
// A new CA is added to the caBundle an hour before it signs, and the old CA stays there for an hour after the
// certificate that it signed has been replaced. Therefore, a renewal makes no conversion fail. If the Secret is lost, a
// new CA signs at once, and conversions can fail until the API servers have read the new caBundle.
//
// If a cluster has several installations, one of them serves the webhook, and the others do not change the
// CustomResourceDefinition: see owner.go.
//
// reconcile.go chooses the write, and pkg/certificates says what the Secret must contain. Start reading there.
package certificate
