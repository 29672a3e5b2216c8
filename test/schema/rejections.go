package schema

import (
	"slices"
	"strings"
)

// Rejection is the message of one or more validation rules. The API server rejects an object that violates a rule with
// this message.
type Rejection struct {
	Message string
	// Fields has the fields that the rules check, each with its kind, as in "App: spec.ingress.host".
	Fields []string
}

// Rejections returns the distinct messages of the validation rules in artifacts/crds, in the order of the kinds and
// their fields.
func Rejections() (all []Rejection, err error) {
	definitions, err := definitions()
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, v := range versions(definitions) {
		for _, f := range append([]Field{{Of: v, Schema: v.Root}}, slices.Concat(v.Fields("spec"), v.Fields("status"))...) {
			rules, _ := f.Schema["x-kubernetes-validations"].([]any)
			for _, rule := range rules {
				rule := rule.(Node)
				message := rule["message"].(string)
				i, known := found[message]
				if !known {
					i = len(all)
					found[message], all = i, append(all, Rejection{Message: message})
				}
				if field := rejected(f, rule); !slices.Contains(all[i].Fields, field) {
					all[i].Fields = append(all[i].Fields, field)
				}
			}
		}
	}
	return all, nil
}

// rejected returns the kind and the field that the API server names when an object violates a rule of f.
func rejected(f Field, rule Node) string {
	inner, _ := rule["fieldPath"].(string)
	path := strings.NewReplacer(".[]", "[]", ".{}", "{}").Replace(strings.Join(f.Path, "."))
	return f.Of.Kind + ": " + strings.TrimPrefix(path+inner, ".")
}
