package controller

// rewrite is an object in which the API server keeps values other than the values that a reconcile wrote. A reconcile
// does not write the same values to such an object again.
type rewrite struct {
	token uint64
	note  Note
}

// RecordRewrite records that the API server keeps values in an object other than the values that a reconcile of key
// wrote. name is unique among the objects of the key. token identifies the written values and the kept values. note
// becomes a Warning Event of the object of the key, unless the last RecordRewrite for name had the same note.
func (t *Tracker) RecordRewrite(key Key, name string, token uint64, note Note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.tracked(key)
	if k.rewrites[name].note != note {
		k.warnings = append(k.warnings, note)
	}
	if k.rewrites == nil {
		k.rewrites = map[string]rewrite{}
	}
	k.rewrites[name] = rewrite{token, note}
}

// IsRewrite reports whether the last RecordRewrite for key and name had the same token.
func (t *Tracker) IsRewrite(key Key, name string, token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, found := t.tracked(key).rewrites[name]
	return found && last.token == token
}

// ForgetRewrite forgets an object that has the written values.
func (t *Tracker) ForgetRewrite(key Key, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tracked(key).rewrites, name)
}

// takeWarnings returns the notes of RecordRewrite since the last call.
func (t *Tracker) takeWarnings(key Key) []Note {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.tracked(key)
	notes := k.warnings
	k.warnings = nil
	return notes
}
