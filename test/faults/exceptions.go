package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// mayDiffer are the fields in which two runs without a fault may differ: what is made by
// chance, and what is derived from that.
var mayDiffer = regexp.MustCompile(strings.Join([]string{
	`^secrets/[^.]+\.data\.(password|uri|pgpass|port)$`,
	`/(password-digest|inputs-digest|inputs(\..*)?)$`,
	`^externaldatabases/[^.]+\.status\.externalID$`,
	`^services/[^.]+\.spec\.(clusterIP|clusterIPs\[0\])$`,
	`^pods/[^.]+\.spec\.(volumes|containers\[0\]\.volumeMounts)\[0\]\.name$`, // of the account's token
}, "|"))

// exempt is the object that need not be in the end what it is in the reference, since
// somebody else has changed it and the operator leaves it so on purpose. For almost all
// plans there is none.
func (ref reference) exempt(p plan) (name string, ok bool) {
	victim := p.victim()
	at := strings.TrimSuffix(strings.Replace(victim, "pods/", "ats/", 1), "-pod")
	// The Pod of an At that is done is the user's to keep or to delete, as a Job's.
	return victim, strings.HasPrefix(victim, "pods/") && strings.Contains(fmt.Sprint(ref.final[at]), "phase:Done")
}

// slack is how much less, and how much more often than in the reference, something may
// be done to an object. What somebody else has deleted is made anew, and with it what goes
// with it; what nobody heard of before it was over is never made.
func (ref reference) slack(p plan) func(name string) (less, more int) {
	victims := ref.goWith(p.victim())
	return func(name string) (less, more int) {
		switch {
		case victims[name]:
			return 0, 1
		case p.fault == early, p.fault == frozen, p.fault == dropped && p.scenario == "at-exceeds":
			return 1, 0
		case p.fault == oldList && strings.Contains(p.scenario, "-early") && !followsOthers(p, name):
			// To a process that has just started and is served an old list, an App that nobody
			// has seen to is a new one. What it makes for it is garbage, and collected.
			return 0, 1
		case p.fault == "422" && p.scenario == "at-exceeds" && p.point == "create-pods-task-pod":
			// A request that was refused as invalid is sent again after five minutes. The deadline of
			// this At is one.
			return 1, 0
		case p.fault == leaseLost && p.scenario == "at-exceeds" && p.point == "create-pods-task-pod":
			// No POST can be made to depend on another object: what a process sends that has
			// stood still is made, and deleted by the one that leads.
			return 0, 1
		}
		return 0, 0
	}
}

// followsOthers tells whether an object is a component that is not made in the first pass
// of a Platform, but once others are Ready: by then somebody has seen to the Platform.
func followsOthers(p plan, name string) bool {
	resource, _, _ := strings.Cut(name, "/")
	return p.scenario == "platform-early" && slices.Contains([]string{"apps", "externaldatabases", "ats"}, resource)
}

// goWith are an object, and those that go when it does.
func (ref reference) goWith(name string) map[string]bool {
	all := map[string]bool{}
	if name == "" {
		return all
	}
	all[name] = true
	for grows := true; grows; {
		grows = false
		for child, object := range ref.final {
			text := fmt.Sprint(object)
			if !all[child] && anyOf(all, func(owner string) bool { return belongs(text, owner) }) {
				all[child], grows = true, true
			}
		}
	}
	return all
}

// belongs tells whether an object's text names an owner, or whom it was made for.
func belongs(text, owner string) bool {
	resource, name, _ := strings.Cut(owner, "/")
	kind := strings.TrimSuffix(resource, "s")
	return strings.Contains(text, "uid:uid of "+owner+"]") || strings.Contains(strings.ToLower(text), "made-for:"+kind+"/"+name)
}

func anyOf(names map[string]bool, is func(string) bool) bool {
	for name := range names {
		if is(name) {
			return true
		}
	}
	return false
}

// victim is the type and name of the owned object to which the plan does something at a
// point of rest.
func (p plan) victim() string {
	for _, fault := range ofObjects {
		if name, ok := strings.CutPrefix(p.fault, fault+"-"); ok {
			name, _, _ = strings.Cut(name, ":")
			return strings.Replace(name, "-", "/", 1)
		}
	}
	return ""
}
