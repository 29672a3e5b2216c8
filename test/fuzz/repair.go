package fuzz

import (
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// anything is the schema of a string without limits.
var anything = &apiextensionsv1.JSONSchemaProps{}

// repair changes a spec so that it mostly meets the validation rules of its kind. These rules relate several values, so
// that the schema of a single value does not contain them.
func (m *maker) repair(kind string, value any) {
	spec, ok := value.(map[string]any)
	if !ok {
		return
	}
	switch kind {
	case "App":
		m.repairApp(spec)
	case "At":
		m.repairEnv(spec)
	case "Database", "ExternalDatabase":
		m.repairDatabase(spec)
	case "Platform":
		m.repairPlatform(spec)
	}
}

func (m *maker) repairApp(spec map[string]any) {
	m.repairEnv(spec)
	if scaling, ok := spec["autoscaling"].(map[string]any); ok {
		least, ok := scaling["minReplicas"].(int64)
		if most := scaling["maxReplicas"].(int64); ok && least > most {
			scaling["minReplicas"], scaling["maxReplicas"] = most, least
		}
		if m.chance(0.9) { // the autoscaler needs a CPU request
			spec["resources"] = map[string]any{"requests": map[string]any{"cpu": one(m.Rand, usualQuantities)}}
		}
	}
	for _, field := range []string{"ingress", "route"} {
		of, ok := spec[field].(map[string]any)
		if path, isText := of["path"].(string); ok && isText && untidy.MatchString(path) {
			of["path"] = "/"
		}
	}
	m.repairPorts(spec)
	if files, ok := spec["config"].(map[string]any); ok {
		for name := range inOrder(files) {
			if name == "." || strings.HasPrefix(name, "..") {
				delete(files, name)
			}
		}
	}
	if secrets, ok := spec["imagePullSecrets"].([]any); ok {
		for _, secret := range secrets {
			if named, ok := secret.(map[string]any); ok && (named["name"] == nil || named["name"] == "") {
				named["name"] = "missing"
			}
		}
		spec["imagePullSecrets"] = distinctBy(secrets, "name")
	}
}

// untidy matches the paths that the API server rejects in an Ingress and in a route.
var untidy = regexp.MustCompile(`//|/\.\.?(/|$)`)

// repairEnv gives valid and distinct names to the environment variables of most objects. The API server accepts an App
// with invalid names, but rejects its Deployment.
func (m *maker) repairEnv(spec map[string]any) {
	variables, ok := spec["env"].([]any)
	if !ok || m.chance(0.3) {
		return
	}
	for _, variable := range variables {
		named, ok := variable.(map[string]any)
		if !ok {
			continue
		}
		if name, ok := named["name"].(string); ok && !plain.MatchString(name) {
			named["name"] = "A" + strings.Map(printable, name)
		}
		if named["valueFrom"] != nil {
			delete(named, "value")
		}
	}
	spec["env"] = distinctBy(variables, "name")
}

var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func printable(r rune) rune {
	if r <= ' ' || r >= 0x7f || r == '=' {
		return '_'
	}
	return r
}

// distinctBy drops each item in which a property has the same value as in an earlier item.
func distinctBy(items []any, property string) []any {
	seen := map[any]bool{}
	return slices.DeleteFunc(items, func(item any) bool {
		properties, ok := item.(map[string]any)
		if !ok {
			return false
		}
		was := seen[properties[property]]
		seen[properties[property]] = true
		return was
	})
}

func (m *maker) repairDatabase(spec map[string]any) {
	for _, field := range []string{"databaseName", "owner"} {
		if name, ok := spec[field].(string); ok {
			spec[field] = repairIdentifier(name)
		}
	}
	if storage, ok := spec["storage"].(map[string]any); ok && m.chance(0.8) {
		if size, ok := storage["size"].(string); !ok || strings.HasPrefix(size, "-") || strings.Trim(size, "+-0.m") == "" {
			storage["size"] = one(m.Rand, usualQuantities)
		}
		if _, ok := storage["maxSize"]; ok {
			storage["maxSize"] = storage["size"]
		}
	}
	if tls, ok := spec["tls"].(map[string]any); ok && tls["mode"] == "Disabled" {
		delete(tls, "secretName")
	}
	if parameters, ok := spec["parameters"].(map[string]any); ok {
		for _, ours := range []string{
			"config_file", "data_directory", "external_pid_file", "hba_file", "ident_file", "listen_addresses", "port",
			"unix_socket_directories", "ssl", "ssl_ca_file", "ssl_cert_file", "ssl_crl_dir", "ssl_crl_file", "ssl_key_file",
			"ssl_passphrase_command", "ssl_passphrase_command_supports_reload", "max_replication_slots", "max_wal_senders",
			"wal_level",
		} {
			delete(parameters, ours)
		}
	}
}

// repairIdentifier turns a name into a name that PostgreSQL accepts for roles and databases.
func repairIdentifier(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	for len(name) > 63 {
		name = cut(name, len([]rune(name))-1)
	}
	if strings.HasPrefix(name, "pg_") || slices.Contains([]string{
		"", "postgres", "template0", "template1", "public", "none",
	}, name) {
		return "x" + cut(name, 40)
	}
	return name
}

// componentKinds maps a property of a component to a kind. A component has exactly one of these properties.
var componentKinds = map[string]string{
	"app": "App", "database": "Database", "externalDatabase": "ExternalDatabase", "at": "At",
}

// longestComponent is the largest length of generated component names, in characters. Most Platforms may have
// component names of this length.
const longestComponent = 30

func (m *maker) repairPlatform(spec map[string]any) {
	spec["namespace"] = one(m.Rand, m.surroundings.Namespaces)
	components, ok := spec["components"].([]any)
	if !ok && m.chance(0.8) {
		components = []any{map[string]any{"name": "c", "app": map[string]any{"image": "shop:1"}}}
	}
	if len(components) > 5 {
		components = components[:5] // each component creates about ten objects
	}
	var names []any
	for _, item := range components {
		component := item.(map[string]any)
		name, _ := component["name"].(string)
		if component["name"] = strings.Trim(cut(name, longestComponent), "-"); component["name"] == "" {
			component["name"] = "c"
		}
		names = append(names, component["name"])
		m.repairComponent(component)
	}
	for _, item := range components {
		component := item.(map[string]any)
		if component["dependsOn"] == nil {
			continue
		}
		on := []any{}
		for range m.IntN(3) { // this may create cycles
			if name := one(m.Rand, names); name != component["name"] && !slices.Contains(on, name) {
				on = append(on, name)
			}
		}
		component["dependsOn"] = on
	}
	if components != nil {
		spec["components"] = distinctBy(components, "name")
	}
}

// repairComponent leaves the spec of exactly one kind in a component, and repairs this spec.
func (m *maker) repairComponent(component map[string]any) {
	var there []string
	for property := range inOrder(componentKinds) {
		if component[property] != nil {
			there = append(there, property)
		}
	}
	if len(there) == 0 {
		component["app"] = map[string]any{"image": "shop:1"}
		return
	}
	keep := one(m.Rand, there)
	for _, property := range there {
		if property != keep {
			delete(component, property)
		}
	}
	kept, ok := component[keep].(map[string]any)
	if !ok {
		return
	}
	delete(kept, "ttlSecondsAfterFinished")
	m.repair(componentKinds[keep], kept)
}
