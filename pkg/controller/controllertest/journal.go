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

// Journal holds the writes that were asked of several fake clientsets, in the
// order in which they were asked, whether they succeeded or not.
type Journal struct {
	mu      sync.Mutex
	entries []entry
	faults  []fault
}

// Reads is how many objects of a resource a fake clientset was asked for, one by one.
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

// NewJournal returns a journal of all that is written to clients from now on.
// Reactors that are put in front of it later hide writes from it; FailNext does
// not.
func NewJournal(clients ...Fake) *Journal {
	j := &Journal{}
	for _, client := range clients {
		client.PrependReactor("*", "*", j.react)
	}
	return j
}

// Writes returns each write as a short line: `create pods default/example-at-pod`,
// `update ats/status default/example-at`. A line ends in "without precondition"
// if the write names neither a UID nor a resource version, so that it could hit
// another object, or a newer one, than was meant. A create needs none.
func (j *Journal) Writes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for _, e := range j.entries {
		lines = append(lines, e.text)
	}
	return lines
}

// Object returns what the last write with this line sent, or nil: the object of
// a create or an update.
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

// FailNext answers the next request with err. resource may have a subresource:
// ats/status.
func (j *Journal) FailNext(verb, resource string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(j.faults, fault{verb, resource, err})
}

func (j *Journal) react(action clienttesting.Action) (bool, runtime.Object, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch action.GetVerb() {
	case "get", "list", "watch":
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
	key := cache.NewObjectName(action.GetNamespace(), name)
	line := strings.Join([]string{action.GetVerb(), resourceOf(action), key.String()}, " ")
	if !guarded {
		line += " without precondition"
	}
	return line
}

func resourceOf(action clienttesting.Action) string {
	resource := action.GetResource().Resource
	if sub := action.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	return resource
}

// objectOf returns what a create or an update sends, or nil.
func objectOf(action clienttesting.Action) runtime.Object {
	if a, ok := action.(interface{ GetObject() runtime.Object }); ok && a.GetObject() != nil {
		return a.GetObject().DeepCopyObject()
	}
	return nil
}

// namesVersion tells whether a patch applies to one object or version only.
func namesVersion(patch []byte) bool {
	var object metav1.PartialObjectMetadata
	err := json.Unmarshal(patch, &object)
	return err == nil && (object.UID != "" || object.ResourceVersion != "")
}
