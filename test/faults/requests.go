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

// handleRequest records and checks a request of a process, and returns the response.
func (r *run) handleRequest(a *apiRequest) response {
	id := r.recordID(a.id(), a.process, !a.isWrite())
	r.checkRequest(a)
	r.countRequest()
	resp := r.injector.handle(r, a, id)
	r.log("rq", nil, fmt.Sprintf("%d %s %s -> %d %v [%s]", a.process.number, a.id(), id, resp.status, resp.err,
		a.reconcileID), nil, nil)
	return resp
}

// countRequest counts a request to the API server or to PostgreSQL.
func (r *run) countRequest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.requests++
}

// send sends a request to the API server, and checks the response.
func (r *run) send(a *apiRequest) response {
	if r.scenario.injects && a.method == http.MethodPost && resources[a.resource].Resource == "pods" {
		inject(a)
	}
	resp := r.bridge.do(a.call())
	if resp.err != nil {
		r.addViolation("sending %s: %v", a.id(), resp.err)
	}
	if a.isWrite() && resp.status < http.StatusMultipleChoices {
		r.recordWrite(a)
		r.servers.checkPromise()
		r.wake()
		r.checkStatus(a, resp)
	}
	return resp
}

// recordWrite counts a write of a reconcile, and checks that the write did not wait for a periodic check.
func (r *run) recordWrite(a *apiRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeCount++
	r.outcome.writes[a.reconcileID]++
	if gap := time.Since(r.lastWrite); gap > r.scenario.maxWriteDelay(r.plan.fault) {
		r.outcome.violations = append(r.outcome.violations,
			fmt.Sprintf("%s was sent %v after the last write, as if it had waited for a periodic check", a.id(), gap))
	}
	r.lastWrite = time.Now()
}

// checkRequest checks the namespace and the preconditions of a request.
func (r *run) checkRequest(a *apiRequest) {
	if a.process == r.bystander {
		r.addViolation("%s is about an object of another shard", a.id())
	}
	if !a.isAbout(r.namespace) {
		r.addViolation("%s is for %s/%s, which is not part of this run", a.id(), a.namespace, a.name)
	}
	switch a.method {
	case http.MethodDelete:
		options := a.deleteOptions()
		if options == nil || options.Preconditions == nil || options.Preconditions.UID == nil {
			r.addViolation("%s has no UID as its precondition", a.id())
		}
	case http.MethodPut, http.MethodPatch:
		// A patch of a Pod needs no resource version: the kubelet and the StatefulSet controller write Pods often, but their
		// writes do not conflict with the annotation of the operator.
		if uid, version := a.preconditions(); uid == "" || version == "" && resources[a.resource].Resource != "pods" {
			r.addViolation("%s has the UID %q and the version %q as its preconditions, and needs both", a.id(), uid, version)
		}
	}
}

// checkStatus checks that a written status is not Ready=True for an older generation, or before a Pod was ready.
func (r *run) checkStatus(a *apiRequest, resp response) {
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
	if err := json.Unmarshal(resp.body, &stored); err != nil {
		r.addViolation("decoding the response to %s: %v", a.id(), err)
		return
	}
	ready := slices.ContainsFunc(stored.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == "Ready" && c.Status == metav1.ConditionTrue
	})
	if ready && stored.Status.ObservedGeneration != stored.Metadata.Generation {
		r.addViolation("%s sets Ready=True for generation %d, but the object has generation %d", a.id(),
			stored.Status.ObservedGeneration, stored.Metadata.Generation)
	}
	workload, ok := workloads[resources[a.resource].Resource]
	if ok && ready && !r.wasReady(workload+"/"+r.stableName(a.name)) {
		r.addViolation("%s sets Ready=True before a Pod was Ready", a.id())
	}
}

// workloads maps the resource of a kind to the resource that runs its Pods. Both objects have the same name.
var workloads = map[string]string{"apps": "deployments", "databases": "statefulsets"}

// wasReady reports whether the workload with this full name ever had a ready Pod, or zero desired replicas.
func (r *run) wasReady(name string) bool {
	return slices.ContainsFunc(r.history.eventsUntil(newestVersion), func(e event) bool {
		var live appsv1.Deployment // a StatefulSet has these fields too
		if r.fullName(e.object) != name || json.Unmarshal(e.raw, &live) != nil {
			return false
		}
		return live.Status.ReadyReplicas > 0 || live.Spec.Replicas != nil && *live.Spec.Replicas == 0
	})
}

// recordReconcile records the end of a reconcile, unless the process is dead.
func (r *run) recordReconcile(p *process, id, object, result string) {
	if p.isDead() {
		r.wake()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.reconciles = append(r.outcome.reconciles, reconcile{
		id: id, object: r.stableName(object), result: result, interval: r.interval, afterFault: r.injector.isOver(),
	})
}
