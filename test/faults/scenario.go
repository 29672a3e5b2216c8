package faults

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scenario is what somebody does with the operator.
type scenario struct {
	name string
	sql  bool // it has to do with a PostgreSQL server outside of the cluster
	// setUp is what goes before, without faults, and steps what they happen in. After
	// each step all comes to rest.
	setUp, steps []step
	// after are steps without faults after which a run has come to its end.
	after []step
	// calm scenarios have no faults: they go the ways of others, and are run to see what
	// they come to. In few the process does not die a second time, for the same reason.
	calm, few bool
	// fresh, if there are any, make at once what setUp and steps come to: what is there
	// in the end must be the same.
	fresh []step
	// early is the type of the object that the last step deletes, so that somebody may
	// do so before; 0, which are namespaces, if there is none.
	early int
	// check looks at what a run without a fault has come to, beside what all must do.
	check func(o outcome) []string
}

// patience is how long after anybody's last write the operator may write something: long
// enough for its backoff, but not for a periodic check to find that it is needed. What
// is invalid, and a volume that may not grow, is tried again after 5 minutes. An At may
// wait for its time, and has no periodic checks.
func (s *scenario) patience(fault string) time.Duration {
	switch {
	case s.isAt():
		return forever
	case fault == "403" || fault == "422":
		return 6 * time.Minute
	}
	return time.Minute
}

func (s *scenario) isAt() bool { return strings.HasPrefix(s.name, "at-") }

// looks tells whether the operator looks again and again at what no event tells of: a
// PostgreSQL server, or somebody else's object in the place of a child.
func (s *scenario) looks() bool { return s.sql || s.polls() }

func (s *scenario) polls() bool { return strings.HasSuffix(s.name, "-taken") }

const forever = 1000 * time.Hour

// moveIn makes the scope: what a namespace has, and what is not the operator's.
func (u *user) moveIn() {
	u.create("", "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.run.scope}})
	if !strings.HasPrefix(u.run.scenario.name, "app-") { // of which there are no Pods here
		u.makeAccount()
	}
	for _, name := range foreignNames {
		u.create("", "secrets", &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "windlass", "app.kubernetes.io/instance": "web"}},
			StringData: map[string]string{"password": "theirs"},
		})
		u.create("", "configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"theirs": "yes"}})
	}
}

// foreignNames are those of objects that are not the operator's, though one bears its
// label.
var foreignNames = []string{"theirs"}

// checkForeign looks whether anybody has touched what is not the operator's.
func (u *user) checkForeign() {
	for _, name := range foreignNames {
		for _, kind := range []string{"secrets", "configmaps"} {
			if n := u.run.history.versionsOf(indexOf("", kind), name); n != 1 {
				u.run.violate("%s/%s, which is not the operator's, has had %d versions", kind, name, n)
			}
		}
	}
}
