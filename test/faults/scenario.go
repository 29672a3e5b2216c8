package faults

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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
	// known scenarios send the requests that others do, and faults happen to what they see.
	known bool
	// drifts is the kind of the objects whose children users change at rest, and nothing else
	// happens there; empty if they do not.
	drifts string
	// fresh, if there are any, make at once what setUp and steps come to: what is there
	// in the end must be the same.
	fresh []step
	// early is the type of the object that the last step deletes, so that somebody may
	// do so before; 0, which are namespaces, if there is none.
	early int
	// foreign are objects that setUp makes, by type and name, and that are not the
	// operator's.
	foreign []string
	// check looks at what a run without a fault has come to, beside what all must do.
	check func(o outcome) []string
}

// patience is how long after anybody's last write the operator may write something: long
// enough for its backoff, but not for a periodic check to find that it is needed. What
// is invalid, and a volume that may not grow, is tried again after 5 minutes, and a
// component that is refused for good at a periodic check. An At may wait for its time, and
// has no periodic checks.
func (s *scenario) patience(fault string) time.Duration {
	switch {
	case s.isAt():
		return forever
	case isForGood(fault) && strings.HasPrefix(s.name, "platform-"):
		return quiet
	case isForGood(fault):
		return 6 * time.Minute
	}
	return time.Minute
}

// isForGood tells whether a fault says that it is of no use to try again.
func isForGood(fault string) bool { return fault == "403" || fault == "422" }

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
	foreign, before := slices.Clone(u.run.scenario.foreign), map[string]string{}
	for _, name := range foreignNames {
		foreign = append(foreign, "secrets/"+name, "configmaps/"+name)
	}
	for _, e := range u.run.history.all(newestVersion) {
		name := u.run.fullName(e.object)
		if !slices.Contains(foreign, name) {
			continue
		}
		is := essence(e.object)
		if was, known := before[name]; e.kind == watch.Deleted || known && was != is {
			u.run.violate("%s, which is not the operator's, was %s: %s, and before: %s", name, e.kind, is, was)
		}
		before[name] = is
	}
	if len(before) < len(foreign) {
		u.run.violate("of %v there were only %v", foreign, slices.Sorted(maps.Keys(before)))
	}
}

// essence is an object without what a kubelet, or the operator for one of its kinds, says
// of it.
func essence(o *object) string {
	var all map[string]any
	_ = json.Unmarshal(o.raw, &all) // then it is empty
	delete(all, "status")
	if metadata, ok := all["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
		delete(metadata, "managedFields")
	}
	text, _ := json.Marshal(all) // it was read from JSON
	return string(text)
}
