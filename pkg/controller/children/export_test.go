package children

// RecordOf returns the record of a child.
func (t *Type[T]) RecordOf(want T) (string, error) {
	w, err := t.desiredStateOf(want)
	return w.record, err
}

// Compare reports whether a child is found to be in its desired state without a merge, and returns the
// patch that a merge computes.
func (t *Type[T]) Compare(want, live T) (asWanted bool, patch []byte, err error) {
	w, err := t.desiredStateOf(want)
	if err != nil {
		return false, nil, err
	}
	c, err := t.change(w, live)
	if c == nil {
		return t.isAsWanted(w, live), nil, err
	}
	return t.isAsWanted(w, live), c.patch, err
}
