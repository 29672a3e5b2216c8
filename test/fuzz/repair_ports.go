package fuzz

import "slices"

// repairPorts removes from the spec of an App what its validation rules do not allow beside another field: a short form
// beside its long form, a second action of a probe, a second entry of a port, and fields that need a Service.
func (m *maker) repairPorts(spec map[string]any) {
	if ports, ok := spec["ports"].([]any); ok {
		spec["ports"] = distinctPorts(ports)
		delete(spec, "port")
		if first, ok := firstOf(ports).(map[string]any); ok && spec["ingress"] != nil {
			first["protocol"] = "TCP"
		}
		if len(ports) == 0 {
			for _, field := range []string{"service", "ingress", "probe", "probes"} {
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
	probes, ok := spec["probes"].(map[string]any)
	if !ok {
		return
	}
	if probes["readiness"] != nil {
		delete(spec, "probe")
	}
	for _, probe := range inOrder(probes) {
		if probe, ok := probe.(map[string]any); ok {
			m.repairProbe(probe)
		}
	}
}

func firstOf(items []any) any {
	if len(items) == 0 {
		return nil
	}
	return items[0]
}

// repairProbe leaves one action in a probe.
func (m *maker) repairProbe(probe map[string]any) {
	actions := slices.DeleteFunc([]string{"exec", "grpc", "httpGet", "tcpSocket"}, func(action string) bool {
		return probe[action] == nil
	})
	if len(actions) == 0 {
		probe["tcpSocket"] = map[string]any{}
		return
	}
	keep := m.IntN(len(actions))
	for _, action := range slices.Delete(actions, keep, keep+1) {
		delete(probe, action)
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
