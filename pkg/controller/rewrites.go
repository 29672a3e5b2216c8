package controller

import "sync"

// rewrites remembers for each key the objects in which the API server keeps other values than those that a reconcile
// wrote, so that the reconcile does not write the same values again and again.
type rewrites struct {
	mu       sync.Mutex
	all      map[Key]map[string]rewrite
	warnings map[Key][]Note // the Events to record at the end of the reconcile
}

type rewrite struct {
	token uint64
	note  Note
}

// RecordRewrite records that the API server keeps other values in an object than those that a reconcile of key wrote.
// name is unique among the objects of the key. token identifies the written values and the kept values. note becomes a
// Warning of the object of the key, unless the last RecordRewrite for name had the same note.
func (r *rewrites) RecordRewrite(key Key, name string, token uint64, note Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[key] == nil {
		r.all[key] = map[string]rewrite{}
	}
	if r.all[key][name].note != note {
		r.warnings[key] = append(r.warnings[key], note)
	}
	r.all[key][name] = rewrite{token, note}
}

// IsRewrite reports whether the last RecordRewrite for key and name had the same token.
func (r *rewrites) IsRewrite(key Key, name string, token uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.all[key][name]
	return found && last.token == token
}

// ForgetRewrite forgets an object whose values are the written ones.
func (r *rewrites) ForgetRewrite(key Key, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all[key]) == 0 {
		return
	}
	if delete(r.all[key], name); len(r.all[key]) == 0 {
		delete(r.all, key)
	}
}

// takeWarnings returns the notes of RecordRewrite since the last call.
func (r *rewrites) takeWarnings(key Key) []Note {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.warnings[key]
	delete(r.warnings, key)
	return notes
}

func (r *rewrites) forget(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
	delete(r.warnings, key)
}
