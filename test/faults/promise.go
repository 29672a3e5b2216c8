package faults

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// connectionSecret is the name of the connection Secret of the Database or ExternalDatabase of a scenario.
const connectionSecret = "shop-credentials"

// rotationGrace is the grace period of a previous login.
const rotationGrace = 30 * time.Second

// promise records what clients can expect from the connection Secret of a Database: after its login has first worked,
// the login works at every instant, and the certificate of the server is verified. The previous login works until the
// end of the grace period.
type promise struct {
	secret          types.UID
	login, previous [2]string // role and password
	worked, broken  bool
	until           time.Time // the end of the grace period of previous
}

// sendTime limits the time between the start of a rotation and its write. The API server may reject the write with 429,
// and client-go then sends the same write again.
const sendTime = 10 * time.Second

// rotatedAt returns the time at which the operator began to send the rotation in a Secret that was just written.
func (s *podServers) rotatedAt(secret *corev1.Secret, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations["windlass.dev/credentials-rotated-at"])
	if err != nil || at.After(now) || now.Sub(at) > sendTime {
		s.run.addViolation("the connection Secret changed at %v, but says that the rotation was at %q", now,
			secret.Annotations["windlass.dev/credentials-rotated-at"])
		return now
	}
	return at
}

func loginIn(secret *corev1.Secret) (role, password string) {
	return string(secret.Data[corev1.BasicAuthUsernameKey]), string(secret.Data[corev1.BasicAuthPasswordKey])
}

// checkPromise checks the promise of the connection Secret. The run calls it after each write, and after a server has
// applied settings, in scenarios that rotate a login. While no server runs, there is nothing to check.
func (s *podServers) checkPromise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.run.scenario.rotates {
		return
	}
	secret, ok := s.run.secret(connectionSecret)
	servers := s.running()
	if !ok || len(servers) == 0 {
		return
	}
	server, p, now := servers[0], &s.promise, s.run.clock.Now()
	if p.secret != secret.UID {
		*p = promise{secret: secret.UID}
	}
	role, password := loginIn(secret)
	if login := [2]string{role, password}; login != p.login {
		if p.worked {
			p.previous, p.until = p.login, s.rotatedAt(secret, now).Add(rotationGrace)
		}
		p.login = login
	}
	switch accepted := server.accepts(role, password); {
	case p.broken:
		return // one violation is enough
	case p.worked && !server.isVerified(secret, now):
		p.broken = true
		s.run.addViolation("a client with the connection Secret rejects the certificate of the server")
	case !accepted && p.worked:
		p.broken = true
		s.run.addViolation("the server rejects the login %q in the connection Secret, which has worked before", role)
	case p.previous[0] != "" && now.Before(p.until) && !server.accepts(p.previous[0], p.previous[1]):
		p.broken = true
		s.run.addViolation("the server rejects the previous login %q %v before the end of its grace period", p.previous[0],
			p.until.Sub(now))
	case accepted:
		p.worked = true
	}
}
