package children

// RecordOf is what a child bears as its record.
func (t *Type[T]) RecordOf(want T) (string, error) {
	w, err := t.desiredStateOf(want)
	return w.record, err
}

// Compare tells whether a child is found to be as wanted without a merge, and what a merge
// comes to.
func (t *Type[T]) Compare(want, live T) (asWanted bool, patch []byte, err error) {
	w, err := t.desiredStateOf(want)
	if err != nil {
		return false, nil, err
	}
	patch, err = t.patch(w, live)
	return t.isAsWanted(w, live), patch, err
}
