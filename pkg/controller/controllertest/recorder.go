package controllertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Recorder is a controller.EventRecorder that keeps the Events.
type Recorder struct {
	mu     sync.Mutex
	events []string
}

// Event implements controller.EventRecorder.
func (r *Recorder) Event(regarding controller.Object, eventType, reason, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", eventType, reason, cache.MetaObjectToName(regarding), note))
}

// Events returns each Event as a line: `Normal Waiting default/example-at: It waits for its time.`
func (r *Recorder) Events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Conditions returns each condition of obj as a line, sorted by type:
// `Ready=False MissingSecret: There is no Secret default/db.`
func Conditions(obj controller.Object) []string {
	var lines []string
	for _, c := range *obj.StatusConditions() {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message), ": "))
	}
	slices.Sort(lines)
	return lines
}
