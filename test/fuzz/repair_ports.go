package fuzz

import (
	"fmt"
	"slices"
)

// repairPorts removes from the spec of an App what its validation rules do not allow beside another field: a short form
// beside its long form, a second action of a probe, a second entry of a port, and fields that need a Service.
func (m *maker) repairPorts(spec map[string]any) {
	if ports, ok := spec["ports"].([]any); ok {
		spec["ports"] = distinctPorts(ports)
		delete(spec, "port")
		if first, ok := firstOf(ports).(map[string]any); ok && (spec["ingress"] != nil || spec["route"] != nil) {
			first["protocol"] = "TCP"
			if route, ok := spec["route"].(map[string]any); ok && first["appProtocol"] == "grpc" {
				delete(route, "path")
			}
		}
		if len(ports) == 0 {
			for _, field := range []string{"service", "ingress", "route", "probe", "probes"} {
				delete(spec, field)
			}
		}
	}
	if ingress, ok := spec["ingress"].(map[string]any); ok && ingress["hosts"] != nil {
		delete(ingress, "host")
	} else if ok && ingress["host"] == nil {
		ingress["host"] = "a.example.com"
	}
	if rollout, ok := spec["rollout"].(map[string]any); ok && rollout["strategy"] == "Recreate" {
		delete(rollout, "maxSurge")
		delete(rollout, "maxUnavailable")
	}
	m.repairVolumes(spec)
	probes, ok := spec["probes"].(map[string]any)
	if !ok {
		return
	}
	if probes["readiness"] != nil {
		delete(spec, "probe")
	}
	for _, probe := range inOrder(probes) {
		if probe, ok := probe.(map[string]any); ok {
			m.keepOne(probe, "tcpSocket", "exec", "grpc", "httpGet", "tcpSocket")
		}
	}
}

// repairVolumes leaves one source in each volume, removes reload beside subPath, and gives the volumes with a claim
// distinct names.
func (m *maker) repairVolumes(spec map[string]any) {
	volumes, ok := spec["volumes"].([]any)
	if !ok {
		return
	}
	for i, value := range volumes {
		volume, ok := value.(map[string]any)
		if !ok {
			continue
		}
		m.keepOne(volume, "emptyDir", "claim", "configMap", "emptyDir", "image", "persistentVolumeClaim", "secret")
		if delete(volume, "name"); volume["claim"] != nil {
			volume["name"] = fmt.Sprintf("volume-%d", i)
		}
		for _, source := range []string{"secret", "configMap"} {
			if files, ok := volume[source].(map[string]any); ok && volume["subPath"] != nil {
				delete(files, "reload")
			}
		}
	}
}

func firstOf(items []any) any {
	if len(items) == 0 {
		return nil
	}
	return items[0]
}

// keepOne leaves one of fields in an object. If the object has none of them, it gets usual with an empty object.
func (m *maker) keepOne(object map[string]any, usual string, fields ...string) {
	set := slices.DeleteFunc(fields, func(field string) bool { return object[field] == nil })
	if len(set) == 0 {
		object[usual] = map[string]any{}
		return
	}
	keep := m.IntN(len(set))
	for _, field := range slices.Delete(set, keep, keep+1) {
		delete(object, field)
	}
}

// distinctPorts returns the ports with distinct names, numbers and ports of the Service.
func distinctPorts(ports []any) []any {
	for _, port := range ports {
		if port, ok := port.(map[string]any); ok {
			if port["name"] == "http" && port["servicePort"] == nil {
				port["servicePort"] = int64(80)
			} else if port["servicePort"] == nil {
				port["servicePort"] = port["port"]
			}
		}
	}
	return distinctBy(distinctBy(distinctBy(ports, "name"), "port"), "servicePort")
}
