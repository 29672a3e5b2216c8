package packed

// Size is how many bytes an object takes packed.
func (o *Object) Size() int { return len(o.packed) }
