package packed

// Size returns how many bytes the packed object takes.
func (o *Object) Size() int { return len(o.packed) }
