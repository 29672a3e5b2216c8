package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/messages"
)

// Cause is a link of the chain that explains why an object is not Ready.
type Cause struct {
	// Object is the object, for example App shop/web.
	Object string
	// Text says what is wrong with the object.
	Text string
}

// Explanation says why an object is not Ready.
type Explanation struct {
	// Ready is true if there is nothing to explain.
	Ready bool
	// Since is the time of the last transition of the condition Ready of the first object.
	Since time.Time
	// Causes begin with the object itself, and end with the root cause.
	Causes []Cause
	// Advice says what to do. It is empty if there is no advice.
	Advice string
	// Pod is the name of the Pod whose log may say more, or empty.
	Pod string
}

// maxCauses limits the length of a chain. The operator rejects cycles of components, but other objects of users can
// refer to each other.
const maxCauses = 10

// Why explains why an object is not Ready. It follows the objects that the object waits for.
func Why(obj *unstructured.Unstructured, all *Objects) Explanation {
	var e Explanation
	seen := map[string]bool{}
	for at := obj; at != nil && len(e.Causes) < maxCauses && !seen[Name(at)]; {
		seen[Name(at)] = true
		ready, known := condition(at, conditions.Ready)
		if at == obj {
			e.Ready, e.Since = known && ready.Status == "True", ready.LastTransitionTime.Time
			if e.Ready {
				return e
			}
		}
		if !known {
			e.Causes = append(e.Causes, Cause{Name(at), "has no status yet"})
			e.Advice = "Check that the operator is running: kubectl get deployments -A -l " + OperatorLabels
			return e
		}
		if ready.Status == "True" {
			return e
		}
		next, via := waitsFor(at, ready.Reason, all)
		state := phase(at)
		switch {
		case at.GetDeletionTimestamp() != nil:
			state = "being deleted"
		case state == "":
			state = "not Ready"
		}
		if via == "" {
			via = ready.Message
		}
		e.Causes = append(e.Causes, Cause{Name(at), "is " + state + ": " + via})
		e.Advice, e.Pod = Advice(ready.Reason, ready.Message), podIn(ready.Message, all)
		if next == nil && e.Pod == "" {
			e.look(at, all)
		}
		at = next
	}
	return e
}

// look adds the problem of a Pod or a volume below the root cause, if the operator does not report the problem yet. If
// there is no such problem, look selects the Pod whose log may say more.
func (e *Explanation) look(root *unstructured.Unstructured, all *Objects) {
	problem, found := below(root, all)
	if degraded, _ := condition(root, conditions.Degraded); !found || degraded.Status == "True" {
		e.Pod = failedPod(root, all)
		return
	}
	e.Causes = append(e.Causes, problem)
	e.Advice = "Correct the cause. For details, run kubectl describe."
	if kind, name, _ := strings.Cut(problem.Object, " "); kind == "Pod" {
		_, e.Pod, _ = strings.Cut(name, "/")
	}
}

// waitsFor returns the object that obj waits for, and a text about the wait. next is nil if obj itself is the root
// cause.
func waitsFor(
	obj *unstructured.Unstructured, reason string, all *Objects,
) (next *unstructured.Unstructured, via string) {
	switch obj.GetKind() {
	case "Platform":
		return failingComponent(obj, all)
	case "App":
		name := text(obj, "spec", "databaseRef", "name")
		kind := cmp.Or(text(obj, "spec", "databaseRef", "kind"), "Database")
		if database := all.Find(kind, name); database != nil && strings.HasPrefix(reason, "Database") {
			return database, fmt.Sprintf("waits for %s %s", kind, name)
		}
	case "ExternalDatabase":
		secret := text(obj, "spec", "connectionSecretRef", "name")
		for _, database := range all.all {
			if database.GetKind() == "Database" && text(database, "status", "binding", "name") == secret && secret != "" {
				if ready, ok := condition(database, conditions.Ready); ok && ready.Status != "True" {
					return database, "waits for Database " + database.GetName()
				}
			}
		}
	}
	return nil, ""
}

// failingComponent returns the child of the component for which a Platform waits: the first component with a problem of
// its own or, if there is none, the first component that is not Ready.
func failingComponent(platform *unstructured.Unstructured, all *Objects) (next *unstructured.Unstructured, via string) {
	components := componentsOf(platform)
	waits := ""
	for _, degraded := range []bool{true, false} {
		for _, c := range components {
			isWaiting := c.Phase == v1alpha1.ComponentWaiting
			if isWaiting && waits == "" {
				waits = fmt.Sprintf("component %s waits: %s", c.Name, c.Message)
			}
			child := all.Find(c.Kind, platform.GetName()+"-"+string(c.Name))
			if child == nil || isWaiting {
				continue
			}
			ready, known := condition(child, conditions.Ready)
			bad, _ := condition(child, conditions.Degraded)
			if known && ready.Status == "True" || degraded && bad.Status != "True" {
				continue
			}
			return child, cmp.Or(waits, fmt.Sprintf("component %s is not Ready", c.Name))
		}
	}
	return nil, "" // the message of the Platform says why
}

// Advice returns what docs/messages.md says to do about a message with a reason, or "". A message can contain another
// message, such as the problem of a Pod. In this case, Advice returns the advice about that problem, not advice that
// only refers to a table.
func Advice(reason, message string) string {
	var best *controller.Message
	for _, catalog := range messages.Catalogs() {
		for _, m := range catalog.Messages() {
			if m.Reason != "" && m.Reason != reason || !matches(m, message) {
				continue
			}
			if m.Reason == "" && strings.HasPrefix(m.Advice, "Nothing to do") {
				continue
			}
			if best == nil || isBetter(m, best) {
				best = m
			}
		}
	}
	if best == nil {
		return ""
	}
	return tableLinks.ReplaceAllString(best.Advice, "$1 in docs/messages.md")
}

// tableLinks matches links to tables of docs/messages.md.
var tableLinks = regexp.MustCompile(`\[([^]]*)\]\(#[^)]*\)`)

// isBetter reports whether the advice of m is preferred to the advice of other: advice without a link first, and then
// the longer template.
func isBetter(m, other *controller.Message) bool {
	if refers := tableLinks.MatchString(m.Advice); refers != tableLinks.MatchString(other.Advice) {
		return !refers
	}
	return len(m.Template) > len(other.Template)
}

// matches reports whether a message is made from the template of m, or contains such a message.
func matches(m *controller.Message, message string) bool {
	pattern := regexp.QuoteMeta(m.Template)
	for _, placeholder := range m.Placeholders() {
		pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta(placeholder), ".*")
	}
	if strings.Trim(pattern, ".*") == "" {
		return m.Reason != ""
	}
	found, err := regexp.MatchString("(?s)"+pattern, message)
	return err == nil && found
}

// pods matches the name of a Pod in a message.
var pods = regexp.MustCompile(`\bPod ([a-z0-9][-a-z0-9.]*[a-z0-9])`)

// podIn returns the Pod that a message names, if it exists.
func podIn(message string, all *Objects) string {
	for _, found := range pods.FindAllStringSubmatch(message, -1) {
		if all.Find("Pod", found[1]) != nil {
			return found[1]
		}
	}
	return ""
}

// Lines returns the explanation as lines, the object itself first. Ages are relative to now.
func (e Explanation) Lines(name string, now time.Time) (lines []string) {
	if e.Ready {
		if e.Since.IsZero() {
			return []string{name + " is Ready."}
		}
		return []string{name + " has been Ready for " + duration.HumanDuration(now.Sub(e.Since)) + "."}
	}
	for _, cause := range e.Causes {
		lines = append(lines, cause.Object+" "+cause.Text)
	}
	if e.Advice != "" {
		lines = append(lines, e.Advice)
	}
	return lines
}
