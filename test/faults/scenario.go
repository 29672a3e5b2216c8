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

// scenario is a sequence of actions of a user.
type scenario struct {
	name string
	sql  bool // the scenario needs a PostgreSQL server outside of the cluster
	// sharded is set if the operator has two shards. The namespace of the run is in one of them. A second process works on
	// the other shard, which has no objects.
	sharded bool
	// setUp are the steps before the first fault. Faults happen in steps. After each step the run waits until
	// everything is at rest.
	setUp, steps []step
	// after are steps without faults at the end.
	after []step
	// A scenario with noFaults has no plans: its final state is only compared with the state after freshSteps. A scenario
	// with noSecondDeaths has no plans with a second death. In both cases, plans of other scenarios cover the same code.
	noFaults, noSecondDeaths bool
	// A scenario with onlyEventFaults sends the same requests as other scenarios. Its events have faults, and its
	// requests have only the fault early.
	onlyEventFaults bool
	// driftKind is the kind of the object whose children users change at rest, or "" for other scenarios. A scenario with
	// driftKind has only these faults at rest.
	driftKind string
	// freshSteps are optional. They create the objects with their final specs, and must lead to the same final state as
	// steps.
	freshSteps []step
	// earlyDeletion is the index in resources of the type of the object that the last step deletes. The fault early
	// deletes this object before the last step. 0 means that the scenario does not have this fault.
	earlyDeletion int
	// foreign are the full names of objects that setUp creates and the operator does not own.
	foreign []string
	// rotates is set if the login in the connection Secret of a Database has to work at every instant: see promise.
	rotates bool
	// injects is set if an admission webhook adds a container to each Pod of a command.
	injects bool
	// losesPods is set if each request has the faults in podLosses. The state of the Pod and its owner may then differ.
	losesPods bool
	// loss is the way in which a step loses a Pod, or "".
	loss string
	// check returns the problems of the outcome of the reference run, in addition to the checks of all runs.
	check func(o outcome) []string
	// invariant adds the violations of a rule of this scenario. It is called at the end of each run.
	invariant func(u *user)
}

// maxWriteDelay returns the maximum time between two writes of the operator. It is long enough for a backoff, but not
// for a periodic check. A request that is rejected with 403 or 422 is retried after up to 5 minutes. In a Platform, the
// limit for such a request includes a periodic check. An At has no limit, because it waits for its schedule and has no
// periodic checks.
func (s *scenario) maxWriteDelay(fault string) time.Duration {
	switch {
	case s.isAt():
		return forever
	case isPermanent(fault) && strings.HasPrefix(s.name, "platform-"):
		return quietPeriod
	case isPermanent(fault), fault == podForced: // the operator waits for the report of the kubelet
		return 6 * time.Minute
	}
	return time.Minute
}

// isPermanent reports whether a fault is an error that a retry within seconds does not resolve.
func isPermanent(fault string) bool { return fault == "403" || fault == "422" }

func (s *scenario) isAt() bool {
	return strings.HasPrefix(strings.TrimPrefix(s.name, shardedPrefix), "at-")
}

// shardedPrefix is the prefix of the names of sharded scenarios.
const shardedPrefix = "sharded-"

// shardedScenarios returns the scenarios of an At, for an operator with shards. Most faults of a handover between
// replicas could make an At run twice.
func shardedScenarios() []scenario {
	all := atScenarios()
	for i := range all {
		all[i].name, all[i].sharded = shardedPrefix+all[i].name, true
	}
	return all
}

// hasServers reports whether the StatefulSet of a Database has a Pod with a simulated PostgreSQL server. The operator
// connects to this server. Without servers, the operator does not connect to Databases.
func (s *scenario) hasServers() bool { return strings.HasPrefix(s.name, "database-") }

// polls reports whether the operator repeatedly checks state that no event reports: a PostgreSQL server, or a foreign
// object that has the name of a child.
func (s *scenario) polls() bool {
	return s.sql || s.nameIsTaken() || s.name == growingScenario || s.name == backupScenario
}

func (s *scenario) nameIsTaken() bool { return strings.HasSuffix(s.name, "-taken") }

const forever = 1000 * time.Hour

// createNamespace creates the namespace of the run, with objects that the operator does not own.
func (u *user) createNamespace() {
	u.create("", "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.run.namespace}})
	if !strings.HasPrefix(u.run.scenario.name, "app-") { // in these scenarios, the Deployment of an App has no Pods
		u.createServiceAccount()
	}
	for _, name := range foreignNames {
		u.create("", "secrets", &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{
					"app.kubernetes.io/managed-by": "windlass", "app.kubernetes.io/instance": "web",
				},
			},
			StringData: map[string]string{"password": "theirs"},
		})
		u.create("", "configmaps", &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"theirs": "yes"},
		})
	}
}

// foreignNames are the names of Secrets and ConfigMaps that the operator does not own. The Secrets have the label of
// the operator.
var foreignNames = []string{"theirs"}

// checkForeignObjects checks that no foreign object was changed or deleted.
func (u *user) checkForeignObjects() {
	foreign, seen := slices.Clone(u.run.scenario.foreign), map[string]string{}
	for _, name := range foreignNames {
		foreign = append(foreign, "secrets/"+name, "configmaps/"+name)
	}
	for _, e := range u.run.history.eventsUntil(newestVersion) {
		name := u.run.fullName(e.object)
		if !slices.Contains(foreign, name) {
			continue
		}
		current := withoutStatus(e.object)
		if previous, ok := seen[name]; e.kind == watch.Deleted || ok && previous != current {
			u.run.addViolation("foreign object %s was %s: it is %s, and was %s before", name, e.kind, current, previous)
		}
		seen[name] = current
	}
	if len(seen) < len(foreign) {
		u.run.addViolation("of the foreign objects %v, only %v were found", foreign, slices.Sorted(maps.Keys(seen)))
	}
}

// withoutStatus returns the text of an object without the status and the metadata that each write changes.
func withoutStatus(o *object) string {
	var all map[string]any
	_ = json.Unmarshal(o.raw, &all) // without a valid object, the text is empty
	delete(all, "status")
	if metadata, ok := all["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
		delete(metadata, "managedFields")
	}
	text, _ := json.Marshal(all) // values decoded from JSON can always be encoded
	return string(text)
}
