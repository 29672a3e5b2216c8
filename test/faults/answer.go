package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is what becomes of a request of a process.
func (r *run) answer(a *asked) reply {
	id := r.number(a.id(), a.process, !a.writes())
	r.checkRequest(a)
	r.asks()
	answer := r.injector.request(r, a, id)
	r.log("rq", nil, fmt.Sprintf("%d %s %s -> %d %v [%s]", a.process.number, a.id(), id, answer.status, answer.err, a.pass), nil, nil)
	return answer
}

// asks counts a request or statement of SQL, whatever becomes of it.
func (r *run) asks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.asked++
}

// send sends a request on, and looks at the answer.
func (r *run) send(a *asked) reply {
	answer := r.bridge.do(a.call())
	if answer.err != nil {
		r.violate("the API server does not answer %s: %v", a.id(), answer.err)
	}
	if a.writes() && answer.status < http.StatusMultipleChoices {
		r.wrote(a)
		r.wake()
		r.checkStatus(a, answer)
	}
	return answer
}

// wrote notes a write, and by which pass.
func (r *run) wrote(a *asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastWrite++
	r.outcome.writers[a.pass]++
	if gap := time.Since(r.lastAct); gap > r.scenario.patience(r.plan.fault) {
		r.outcome.violations = append(r.outcome.violations, fmt.Sprintf("%s comes after %v: only a periodic check has found that it is needed", a.id(), gap))
	}
	r.lastAct = time.Now()
}

// checkRequest looks whether a request may be sent at all.
func (r *run) checkRequest(a *asked) {
	if !a.about(r.scope) {
		r.violate("%s is about %s/%s, which is not of this scope", a.id(), a.namespace, a.name)
	}
	switch a.method {
	case http.MethodDelete:
		options := a.deletes()
		if options == nil || options.Preconditions == nil || options.Preconditions.UID == nil {
			r.violate("%s has no UID as precondition", a.id())
		}
	case http.MethodPut, http.MethodPatch:
		if uid, version := a.changes(); uid == "" || version == "" {
			r.violate("%s has UID %q and version %q as preconditions", a.id(), uid, version)
		}
	}
}

// checkStatus looks whether a status claims what it cannot know.
func (r *run) checkStatus(a *asked, answer reply) {
	if a.subresource != "status" {
		return
	}
	var stored struct {
		Metadata struct{ Generation int64 }
		Status   struct {
			ObservedGeneration int64
			Conditions         []metav1.Condition
		}
	}
	if err := json.Unmarshal(answer.body, &stored); err != nil {
		r.violate("the answer to %s cannot be read: %v", a.id(), err)
		return
	}
	ready := slices.ContainsFunc(stored.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == "Ready" && c.Status == metav1.ConditionTrue
	})
	if ready && stored.Status.ObservedGeneration != stored.Metadata.Generation {
		r.violate("%s says Ready of generation %d, when it is %d", a.id(), stored.Status.ObservedGeneration, stored.Metadata.Generation)
	}
	if workload, ok := workloads[resources[a.resource].Resource]; ok && ready && !r.served(workload+"/"+r.plain(a.name)) {
		r.violate("%s says Ready before any Pod was Ready", a.id())
	}
}

// workloads are what makes the Pods of a kind, under its own name.
var workloads = map[string]string{"apps": "deployments", "databases": "statefulsets"}

// served tells whether a workload was ever Ready, be it with no Pods at all.
func (r *run) served(name string) bool {
	return slices.ContainsFunc(r.history.all(newestVersion), func(e event) bool {
		var is appsv1.Deployment // or what has these fields too
		if r.fullName(e.object) != name || json.Unmarshal(e.raw, &is) != nil {
			return false
		}
		return is.Status.ReadyReplicas > 0 || is.Spec.Replicas != nil && *is.Spec.Replicas == 0
	})
}

// passed notes that a pass has ended.
func (r *run) passed(p *process, id, object, result string) {
	if p.isDead() {
		r.wake()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.passes = append(r.outcome.passes, pass{id: id, object: r.plain(object), result: result, turn: r.turn, after: r.injector.over()})
}
