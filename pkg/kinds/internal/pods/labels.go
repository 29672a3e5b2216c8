package pods

// Labels by which a Platform marks its components. Their Pods have these labels, too.
const (
	PartOfLabel    = "app.kubernetes.io/part-of"
	ComponentLabel = "app.kubernetes.io/component"
)

// CopyPlatformLabels copies the labels of a component of a Platform to the labels of its Pods.
func CopyPlatformLabels(to, from map[string]string) {
	for _, name := range []string{PartOfLabel, ComponentLabel} {
		if value := from[name]; value != "" {
			to[name] = value
		}
	}
}
