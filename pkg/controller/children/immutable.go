package children

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// withoutFixedData returns the desired and the observed state of a child. If observed is an immutable ConfigMap, both
// are returned without data, because nothing can change the data, and because caches lack it. Therefore a kind needs an
// immutable ConfigMap for each content, with the digest of the content in the name.
func withoutFixedData[T Object](desired, observed T) (T, T) {
	config, ok := any(observed).(*corev1.ConfigMap)
	if !ok || !ptr.Deref(config.Immutable, false) {
		return desired, observed
	}
	return withoutData(desired), withoutData(observed)
}

func withoutData[T Object](child T) T {
	config := *any(child).(*corev1.ConfigMap)
	config.Data, config.BinaryData = nil, nil
	return any(&config).(T)
}
