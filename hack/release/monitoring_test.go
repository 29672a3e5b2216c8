package main

import (
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestPrometheusOperatorReadsManifests decodes the manifests with the types of the Prometheus operator, which reject
// unknown fields.
func TestPrometheusOperatorReadsManifests(t *testing.T) {
	all := kustomized(t, "monitoring")
	decode := func(name string, into any) {
		t.Helper()
		text, err := yaml.Marshal(all[name])
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil || all[name] == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var monitor monitoringv1.PodMonitor
	decode("PodMonitor windlass-system windlass-controller", &monitor)
	var rules monitoringv1.PrometheusRule
	decode("PrometheusRule windlass-system windlass", &rules)

	if len(monitor.Spec.PodMetricsEndpoints) != 1 || len(rules.Spec.Groups) != 2 {
		t.Fatalf("there are %d endpoints and %d groups of rules", len(monitor.Spec.PodMetricsEndpoints),
			len(rules.Spec.Groups))
	}
	deployment := all["Deployment windlass-system windlass-controller"]
	labels, _, _ := unstructured.NestedStringMap(deployment, "spec", "template", "metadata", "labels")
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if labels[key] != value {
			t.Errorf("the PodMonitor selects %s=%s, the Pods have %q", key, value, labels[key])
		}
	}
	containers, _, _ := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	ports := containers[0].(map[string]any)["ports"].([]any)
	found := false
	for _, port := range ports {
		found = found || port.(map[string]any)["name"] == *monitor.Spec.PodMetricsEndpoints[0].Port
	}
	if !found {
		t.Errorf("the Pods have no port %q", *monitor.Spec.PodMetricsEndpoints[0].Port)
	}
}

func TestChartAddsLabelsToWhatPrometheusSelects(t *testing.T) {
	all, err := render(t, map[string]any{
		"monitoring": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"PodMonitor windlass-system windlass-controller", "PrometheusRule windlass-system windlass",
	} {
		labels := (&unstructured.Unstructured{Object: all[name]}).GetLabels()
		if labels["release"] != "prometheus" || labels["app.kubernetes.io/name"] != "windlass" {
			t.Errorf("%s has the labels %v", name, labels)
		}
	}
}
