package controllertest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// Fake is a fake clientset, generated or client-go's own.
type Fake interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
}

// Journal records the writes and the GET requests that clients send to several fake clientsets, in the
// order of the requests. It includes requests that failed.
type Journal struct {
	mu      sync.Mutex
	entries []entry
	reads   []string
	faults  []fault
}

// Reads returns the number of GET requests for objects of a resource.
func Reads(actions []clienttesting.Action, resource string) (n int) {
	for _, action := range actions {
		if action.Matches("get", resource) {
			n++
		}
	}
	return n
}

type entry struct {
	text   string
	object runtime.Object
}

type fault struct {
	verb, resource string
	err            error
}

// NewJournal returns a Journal that records the requests to clients from now on, including the requests that FailNext
// makes fail. If a reactor that is prepended later handles a request, the request is not recorded.
func NewJournal(clients ...Fake) *Journal {
	j := &Journal{}
	for _, client := range clients {
		client.PrependReactor("*", "*", j.react)
	}
	return j
}

// Writes returns each write as a short line: `create pods default/example-at-pod`,
// `update ats/status default/example-at`. A line ends in "without precondition" if the write could change a
// different or newer object: an update without a resource version, or a patch or delete with neither a UID
// nor a resource version as its precondition. A create needs no precondition. A line begins with "dry-run " if the API
// server only checks the write.
func (j *Journal) Writes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for _, e := range j.entries {
		lines = append(lines, e.text)
	}
	return lines
}

// Reads returns each GET request as a short line: `get pods default/example-at-pod`.
func (j *Journal) Reads() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.reads)
}

// Object returns the object that was sent by the last write with this line. It returns nil if that write is not a
// create or an update.
func (j *Journal) Object(line string) runtime.Object {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range slices.Backward(j.entries) {
		if e.text == line {
			return e.object
		}
	}
	return nil
}

// FailNext makes the next request with this verb and resource fail with err. resource may have a
// subresource, for example ats/status.
func (j *Journal) FailNext(verb, resource string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(j.faults, fault{verb, resource, err})
}

func (j *Journal) react(action clienttesting.Action) (bool, runtime.Object, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch action.GetVerb() {
	case "get":
		if a, ok := action.(clienttesting.GetAction); ok {
			j.reads = append(j.reads, lineOf(action, a.GetName()))
		}
	case "list", "watch":
	default:
		j.entries = append(j.entries, entry{describe(action), objectOf(action)})
	}
	i := slices.IndexFunc(j.faults, func(f fault) bool {
		return f.verb == action.GetVerb() && f.resource == resourceOf(action)
	})
	if i < 0 {
		return false, nil, nil
	}
	err := j.faults[i].err
	j.faults = slices.Delete(j.faults, i, i+1)
	return true, nil, err
}

func describe(action clienttesting.Action) string {
	var name string
	guarded := false
	switch a := action.(type) {
	case clienttesting.PatchAction:
		name, guarded = a.GetName(), namesVersion(a.GetPatch())
	case clienttesting.DeleteAction:
		p := a.GetDeleteOptions().Preconditions
		name, guarded = a.GetName(), p != nil && (p.UID != nil || p.ResourceVersion != nil)
	default:
		object, err := meta.Accessor(objectOf(action))
		if err == nil {
			name = object.GetName()
			guarded = action.GetVerb() == "create" || object.GetResourceVersion() != ""
		}
	}
	line := lineOf(action, name)
	if isDryRun(action) {
		line = "dry-run " + line
	}
	if !guarded {
		line += " without precondition"
	}
	return line
}

// lineOf returns a request for the object with this name as a line.
func lineOf(action clienttesting.Action, name string) string {
	key := cache.NewObjectName(action.GetNamespace(), name)
	return strings.Join([]string{action.GetVerb(), resourceOf(action), key.String()}, " ")
}

func resourceOf(action clienttesting.Action) string {
	resource := action.GetResource().Resource
	if sub := action.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	return resource
}

// objectOf returns a copy of the object that a create or an update sends, or nil.
func objectOf(action clienttesting.Action) runtime.Object {
	if a, ok := action.(interface{ GetObject() runtime.Object }); ok && a.GetObject() != nil {
		return a.GetObject().DeepCopyObject()
	}
	return nil
}

// namesVersion reports whether a patch has a UID or a resource version as its precondition.
func namesVersion(patch []byte) bool {
	var object metav1.PartialObjectMetadata
	err := json.Unmarshal(patch, &object)
	return err == nil && (object.UID != "" || object.ResourceVersion != "")
}
