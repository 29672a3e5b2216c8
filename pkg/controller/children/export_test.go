package children

// RecordOf returns the record of a child.
func (t *Type[T]) RecordOf(want T) (string, error) {
	w, err := t.desiredStateOf(want)
	return w.record, err
}
