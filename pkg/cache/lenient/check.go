package lenient

import (
	"errors"
	"reflect"

	apijson "k8s.io/apimachinery/pkg/util/json"
)

// Check returns an error unless data can be decoded into a T. No quantity in data can make it slow.
func Check[T any](data []byte) error {
	if isSlow(data) {
		p := &pruner{}
		if _, ok := p.prune(data, reflect.TypeFor[T](), ""); !ok || p.count > 0 {
			return errors.New(p.first)
		}
	}
	var typed T
	return apijson.Unmarshal(data, &typed)
}
