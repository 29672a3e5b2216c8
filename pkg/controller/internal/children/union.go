package children

// unions are fields of which one or some exclude others, by the name of what holds
// them. Where somebody has set another member than is wanted, it is taken out like a
// field that was wanted before: beside ours the API server would refuse it.
var unions = map[string][]string{
	"env":            {"value", "valueFrom"},
	"valueFrom":      {"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"},
	"livenessProbe":  {"exec", "grpc", "httpGet", "tcpSocket"},
	"readinessProbe": {"exec", "grpc", "httpGet", "tcpSocket"},
	"preStop":        {"exec", "httpGet", "sleep", "tcpSocket"},
	"seccompProfile": {"localhostProfile"},
	"spec":           {"maxUnavailable", "minAvailable"}, // of a disruption budget
}

// claimUnions adds to original the members of unions that are there and not wanted.
func claimUnions(original, modified, current map[string]any) {
	claim("", original, modified, current)
}

func claim(holder string, original, modified, current map[string]any) {
	for _, member := range unions[holder] {
		_, wanted := modified[member]
		if value, there := current[member]; there && !wanted {
			original[member] = value
		}
	}
	for key, wanted := range modified {
		switch wanted := wanted.(type) {
		case map[string]any:
			there, ok := current[key].(map[string]any)
			if !ok {
				continue
			}
			before, ok := original[key].(map[string]any)
			if !ok {
				before = map[string]any{}
			}
			claim(key, before, wanted, there)
			if len(before) > 0 {
				original[key] = before
			}
		case []any:
			before, _ := original[key].([]any)
			if before = claimItems(key, before, wanted, current[key]); len(before) > 0 {
				original[key] = before
			}
		}
	}
}

// claimItems does so for the items of a list that are known by their names.
func claimItems(key string, original, modified []any, current any) []any {
	items, _ := current.([]any)
	for _, wanted := range modified {
		wanted, ok := wanted.(map[string]any)
		if !ok || wanted["name"] == nil {
			continue
		}
		there, before := named(items, wanted["name"]), named(original, wanted["name"])
		if there == nil {
			continue
		}
		known := before != nil
		if !known {
			before = map[string]any{"name": wanted["name"]}
		}
		claim(key, before, wanted, there)
		if !known && len(before) > 1 {
			original = append(original, before)
		}
	}
	return original
}

func named(items []any, name any) map[string]any {
	for _, item := range items {
		if item, ok := item.(map[string]any); ok && item["name"] == name {
			return item
		}
	}
	return nil
}
