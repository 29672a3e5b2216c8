package faults

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// nondeterministicFields matches the paths of the fields that may differ between two runs without a fault: fields with
// random values, and with values that depend on random values.
var nondeterministicFields = regexp.MustCompile(strings.Join([]string{
	`^secrets/[^.]+\.data\.((owner|alternate[12]|backup)\.)?(password|uri|pgpass|port|revision|request)$`,
	`^secrets/[^.]+\.data\.(ca|tls)\.(crt|key)$`,
	`^databases/[^.]+\.status\.server\.revision$`,
	`^pods/shop-0\.status\.podIPs?(\[0\]\.ip)?$`,
	`/(inputs-digest|template-digest|inputs(\..*)?)$`,
	`^externaldatabases/[^.]+\.status\.externalID$`,
	`^apps/[^.]+\.status\.((lastAvailable|beforeRolloutRuns\[\d+\])\.)?templateDigest$`,
	`^services/[^.]+\.spec\.(clusterIP|clusterIPs\[0\])$`,
	`^pods/[^.]+\.spec\.(volumes|containers\[0\]\.volumeMounts)\[0\]\.name$`, // the volume of the service account's token
}, "|"))

// isMounted reports whether a Deployment mounts a ConfigMap at the end.
func (ref reference) isMounted(config string) bool {
	for name, object := range ref.final {
		if strings.HasPrefix(name, "deployments/") && strings.Contains(fmt.Sprint(object), config) {
			return true
		}
	}
	return false
}

// previousConfigMaps returns the ConfigMaps with files that the App of a Platform had between a change by a user and
// the correction by the operator. Whether the App is reconciled in between depends on timing.
func (ref reference) previousConfigMaps(o outcome, p plan) map[string]bool {
	all := map[string]bool{}
	for name, object := range o.final {
		if strings.HasPrefix(p.affectedObject(), "apps/") && ref.final[name] == nil && isImmutable(object) {
			all[name] = true
		}
	}
	return all
}

// isImmutable reports whether an object is an immutable ConfigMap or Secret.
func isImmutable(object any) bool {
	fields, _ := object.(map[string]any)
	return fields["immutable"] == true
}

// exemptObjects returns the objects and fields whose final state may differ from the reference: either the operator
// deliberately does not undo the fault, or the fault hides how a command ended. For example, users may delete or change
// the Pod of a command that has ended, like the Pod of a finished Job.
func (ref reference) exemptObjects(p plan) map[string]bool {
	affected := p.affectedObject()
	if p.scenario == "rollout-interrupted" && affected == "deployments/shop" {
		// The command of the newest template has failed, and the previous template is lost with its Deployment.
		return map[string]bool{affected: true, "apps/shop": true, "services/shop": true, "poddisruptionbudgets/shop": true}
	}
	if config, ok := strings.CutPrefix(affected, "configmaps/"); ok && !ref.isMounted(config) {
		return map[string]bool{affected: true} // it has previous files, so that the operator does not restore it
	}
	if slices.Contains(podLosses, p.fault) { // the invariant of the scenario checks the rest
		return ref.withDependents("ats/task", "pods/task-pod", "apps/shop", "pods/"+runPodName)
	}
	if slices.Contains([]string{dropped, frozen, early, clockForward}, p.fault) || affected == "pods/task-pod" {
		// The status says that the Pod was deleted, without the exit code that the kubelet reports: the event of the report
		// is missing, the operator's clock is ahead of the API server's, or the Pod is deleted before it starts.
		if slices.ContainsFunc(podLosses, func(how string) bool { return strings.HasSuffix(p.scenario, "at-"+how) }) {
			return ref.withDependents("ats/task")
		}
		if p.scenario == "rollout-interrupted" || p.scenario == "rollout-previous" {
			return map[string]bool{"apps/shop.status.beforeRolloutRuns": true, "apps/shop.status.conditions": true}
		}
	}
	if p.fault == objectDeleted+"-pods-task-pod" && strings.Contains(fmt.Sprint(ref.final["ats/task"]), "phase:Running") {
		return ref.withDependents("ats/task") // the command fails when its Pod is deleted
	}
	pod, isPod := strings.CutPrefix(affected, "pods/")
	at, app := strings.TrimSuffix(pod, "-pod"), strings.TrimSuffix(pod, "-before-rollout")
	ended := strings.Contains(fmt.Sprint(ref.final["ats/"+at]), "phase:Done") || app != pod &&
		ref.final["apps/"+app] != nil
	if !isPod || !ended {
		return nil
	}
	exempt := ref.dependents(affected)
	exempt["apps/"+app+".status.beforeRolloutRuns[0].podUID"] = true // normalized to the UID of an earlier Pod
	return exempt
}

// allowance returns a function that returns how far a count of an object may be below or above the reference run. An
// object that the fault deletes is created again, with its children. An object that is deleted before a process
// observes it may never get children. The objects in previous may be created.
func (ref reference) allowance(p plan, previous map[string]bool) func(name string) (fewer, more int) {
	affected := ref.dependents(p.affectedObject())
	maps.Copy(affected, previous)
	if set, ok := strings.CutPrefix(p.affectedObject(), "statefulsets/"); ok {
		affected["pods/"+set+"-0"] = true // the final state may lack this Pod, because the scenario deletes the Database
	}
	return func(name string) (fewer, more int) {
		switch {
		case slices.Contains(podLosses, p.fault):
			return 1, 1
		case affected[name]:
			return 0, 1
		case p.fault == early, p.fault == frozen, p.fault == dropped && strings.HasSuffix(p.scenario, "at-exceeds"):
			return 1, 0
		case p.fault == oldList && strings.Contains(p.scenario, "-early") && !hasDependencies(p, name):
			// A process that starts with an old list treats a deleted object without a status as a new object. The process
			// creates children, and garbage collection deletes the children.
			return 0, 1
		case p.fault == oldList && name == "pods/"+runPodName:
			// A process that starts with an old list creates a Pod with a scheduling gate. The Pod never runs.
			return 0, 1
		case p.fault == "422" && strings.HasSuffix(p.scenario, "at-exceeds") && p.point == "create-pods-task-pod":
			// The operator retries an invalid request after five minutes. The deadline of this At is one minute.
			return 1, 0
		case p.createsLatePod():
			return 0, 1
		}
		return 0, 0
	}
}

// createsLatePod reports whether a process creates the Pod of an At that is already done, because the process was
// suspended before it sent the request. No precondition of a POST can require a version of the At. The leader deletes
// the Pod at once.
func (p plan) createsLatePod() bool {
	return p.fault == leaseLost && strings.HasSuffix(p.scenario, "at-exceeds") && p.point == "create-pods-task-pod"
}

// hasDependencies reports whether an object is a Platform component with dependencies. The operator creates such a
// component after its dependencies are Ready. At that time, the Platform already has a status.
func hasDependencies(p plan, name string) bool {
	resource, _, _ := strings.Cut(name, "/")
	return p.scenario == "platform-early" && slices.Contains([]string{"apps", "externaldatabases", "ats"}, resource)
}

// withDependents returns the names of objects and of all objects that are deleted with them.
func (ref reference) withDependents(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		maps.Copy(all, ref.dependents(name))
	}
	return all
}

// dependents returns the name of an object and the names of all objects that are deleted with it.
func (ref reference) dependents(name string) map[string]bool {
	all := map[string]bool{}
	if name == "" {
		return all
	}
	all[name] = true
	for grown := true; grown; {
		grown = false
		for child, object := range ref.final {
			text := fmt.Sprint(object)
			if !all[child] && anyOf(all, func(owner string) bool { return belongsTo(text, owner) }) {
				all[child], grown = true, true
			}
		}
	}
	return all
}

// belongsTo reports whether an object, given as text, names owner in an owner reference or in the annotation made-for.
func belongsTo(text, owner string) bool {
	resource, name, _ := strings.Cut(owner, "/")
	kind := strings.TrimSuffix(resource, "s")
	return strings.Contains(text, "uid:uid of "+owner+"]") ||
		strings.Contains(strings.ToLower(text), "made-for:"+kind+"/"+name)
}

func anyOf(names map[string]bool, matches func(string) bool) bool {
	for name := range names {
		if matches(name) {
			return true
		}
	}
	return false
}

// affectedObject returns the full name of the owned object that the fault changes at a point of rest, or "".
func (p plan) affectedObject() string {
	for _, fault := range objectFaults {
		if name, ok := strings.CutPrefix(p.fault, fault+"-"); ok {
			name, _, _ = strings.Cut(name, ":")
			return strings.Replace(name, "-", "/", 1)
		}
	}
	return ""
}
