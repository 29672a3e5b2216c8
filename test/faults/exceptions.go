package faults

import "strings"

// exempt are the objects, and the fields of objects, that need not be in the end what they
// are in the reference, since somebody else has changed something and the operator leaves
// it so on purpose. For almost all plans there are none.
func (p plan) exempt() []string {
	switch victim := p.victim(); {
	case strings.HasPrefix(victim, "pods-"):
		// The Pod of an At that is Done is the user's to keep or to delete, as a Job's.
		return []string{strings.Replace(victim, "-", "/", 1)}
	}
	return nil
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
