package controller

import (
	"slices"
	"sync"
)

// noOps remembers comparisons that found nothing to do, so that they are not repeated before one of
// the compared objects changes.
type noOps struct {
	mu  sync.Mutex
	all map[Key][]noOp
}

type noOp struct {
	name  string
	token uint64
}

// RecordNoOp records that a comparison for key found nothing to do. name is unique among the
// comparisons of the key. token identifies what was compared: see Versions. Only the last token of a
// name is remembered.
func (n *noOps) RecordNoOp(key Key, name string, token uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all[key]
	i := slices.IndexFunc(all, func(o noOp) bool { return o.name == name })
	if i < 0 {
		n.all[key] = slices.Concat(all, []noOp{{name, token}}) // without spare capacity
		return
	}
	all[i].token = token
}

// IsNoOp reports whether the last RecordNoOp for key and name had the same token.
func (n *noOps) IsNoOp(key Key, name string, token uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.all[key], noOp{name, token})
}

func (n *noOps) forget(key Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, key)
}
