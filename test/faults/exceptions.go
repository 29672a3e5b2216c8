package faults

import "strings"

// exempt are the objects, and the fields of objects, that need not be in the end what they
// are in the reference, since somebody else has changed something and the operator leaves
// it so on purpose. For almost all plans there are none.
func (p plan) exempt() []string {
	if victim := p.victim(); strings.HasPrefix(victim, "pods-") {
		// The Pod of an At that is Done is the user's to keep or to delete, as a Job's.
		return []string{strings.Replace(victim, "-", "/", 1)}
	}
	return nil
}

// slack is how much less, and how much more often than in the reference, something may
// be done to an object. What somebody else has deleted is made anew, and with it what goes
// with it; what nobody heard of before it was over is never made.
func (p plan) slack() (less, more int) {
	switch {
	case p.victim() != "":
		return 0, 1
	case p.fault == early, p.fault == frozen:
		return 1, 0
	case p.fault == oldList && strings.Contains(p.scenario, "-early"):
		// To a process that has just started and is served an old list, an App that nobody
		// has seen to is a new one. What it makes for it is garbage, and collected.
		return 0, 1
	}
	return 0, 0
}

// victim is the owned object to which the plan does something at a point of rest.
func (p plan) victim() string {
	for _, fault := range []string{isDeleted, isUnlabelled, isUnowned} {
		if name, ok := strings.CutPrefix(p.fault, fault+"-"); ok {
			return name
		}
	}
	return ""
}
