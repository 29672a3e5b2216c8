// Command chart generates templates of the Helm chart from the manifests in artifacts. It skips the Deployment and the
// NetworkPolicy, because the chart has handwritten templates for them, and the Namespace, because Helm creates it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	source = "artifacts"
	target = "charts/windlass/templates/generated"
	// dashboard is the path of a copy of the dashboard. A template of the chart reads the copy.
	dashboard = "charts/windlass/files/dashboard.json"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintf(os.Stderr, "chart: %v\n", err)
		os.Exit(1)
	}
}

// write writes one template for each manifest file.
func write() error {
	var paths []string
	for _, directory := range []string{"crds", "rbac", "rbac/namespaced", "policies", "deploy", "monitoring"} {
		found, err := filepath.Glob(filepath.Join(source, directory, "*.yaml"))
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(source, "monitoring", "dashboard.json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(dashboard, text, 0o644); err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		made := template(string(text))
		if made == "" {
			continue
		}
		inside, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		written := filepath.Join(target, inside)
		if err := os.MkdirAll(filepath.Dir(written), 0o755); err != nil {
			return err
		}
		header := fmt.Sprintf("# Generated from %s by hack/update-codegen.sh. DO NOT EDIT.\n", filepath.ToSlash(path))
		if err := os.WriteFile(written, []byte(header+made), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// template returns the template of the manifests in a file, or "" if the chart has templates of its own for all of
// them.
func template(text string) string {
	var made []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		document = strings.TrimSpace(strings.TrimPrefix(document, "---\n")) + "\n"
		if condition, skipped := conditionOf(document); !skipped {
			made = append(made, conditional(condition, withValues(document)))
		}
	}
	return strings.Join(made, "---\n")
}

const (
	everywhere    = "not .Values.watchNamespace"
	oneNamespace  = ".Values.watchNamespace"
	ownTemplate   = "-" // the chart has a template of its own
	severalOfThem = "gt (int .Values.replicas) 1"
	monitored     = ".Values.monitoring.enabled"
	checksAuthors = "and (not .Values.watchNamespace) .Values.policies.platformAuthors"
	warnsOfAts    = ".Values.policies.repeatedAts"
)

// conditions maps an object, by kind and name or only by kind, to the condition under which the chart contains the
// object. The chart always contains an object without a condition.
var conditions = map[string]string{
	"Namespace":     ownTemplate,
	"Deployment":    ownTemplate,
	"NetworkPolicy": ownTemplate,

	"ClusterRole windlass-controller":               everywhere,
	"ClusterRoleBinding windlass-controller":        everywhere,
	"Role windlass-controller-cluster-lease":        everywhere,
	"RoleBinding windlass-controller-cluster-lease": everywhere,
	"Role windlass-controller-objects":              oneNamespace,
	"RoleBinding windlass-controller-objects":       oneNamespace,
	"PodDisruptionBudget windlass-controller":       severalOfThem, // with one replica, it would block drains

	"ValidatingAdmissionPolicy windlass-platform-authors":        checksAuthors,
	"ValidatingAdmissionPolicyBinding windlass-platform-authors": checksAuthors,
	"ValidatingAdmissionPolicy windlass-repeated-ats":            warnsOfAts,
	"ValidatingAdmissionPolicyBinding windlass-repeated-ats":     warnsOfAts,

	"PodMonitor":     monitored,
	"PrometheusRule": monitored,
	"ServiceAccount windlass-metrics-scraper":     monitored,
	"Secret windlass-metrics-scraper":             monitored,
	"ClusterRoleBinding windlass-metrics-scraper": monitored,
}

var (
	kindLine = regexp.MustCompile(`(?m)^kind: (\S+)$`)
	nameLine = regexp.MustCompile(`(?m)^  name: (\S+)$`)
)

// conditionOf returns the condition of a manifest, or "", and whether the chart has a template of its own for it.
func conditionOf(document string) (condition string, skipped bool) {
	kind, name := kindLine.FindStringSubmatch(document), nameLine.FindStringSubmatch(document)
	if kind == nil || name == nil {
		return "", true // only comments, or a kustomization
	}
	condition, found := conditions[kind[1]+" "+name[1]]
	if !found {
		condition = conditions[kind[1]]
	}
	return condition, condition == ownTemplate
}

// monitoringKind matches the manifests to which the chart adds the value monitoring.labels. ownLabels are the labels in
// these manifests.
var monitoringKind = regexp.MustCompile(`(?m)^kind: (PodMonitor|PrometheusRule)$`)

const ownLabels = "labels: {app.kubernetes.io/name: windlass}"

// withValues replaces the parts of a manifest that depend on the installation with template expressions.
func withValues(document string) string {
	document = strings.ReplaceAll(document, "{{", `{{ "{{" }}`)
	document = strings.ReplaceAll(document, "namespace: windlass-system", "namespace: {{ .Release.Namespace | quote }}")
	document = strings.ReplaceAll(document, `namespace="windlass-system"`, `namespace="{{ .Release.Namespace }}"`)
	document = strings.ReplaceAll(document, "windlass-webhook.windlass-system.svc",
		"windlass-webhook.{{ .Release.Namespace }}.svc")
	if monitoringKind.MatchString(document) {
		return strings.Replace(document, ownLabels,
			`labels: {{ merge (dict "app.kubernetes.io/name" "windlass") .Values.monitoring.labels | toJson }}`, 1)
	}
	if strings.Contains(document, "name: windlass-controller-objects\n") {
		return nameLine.ReplaceAllString(document, "  name: $1\n  namespace: {{ .Values.watchNamespace | quote }}")
	}
	if strings.Contains(document, "\nkind: CustomResourceDefinition\n") { // `helm uninstall` would delete all objects
		return strings.Replace(document, "\n  annotations:\n", "\n  annotations:\n    helm.sh/resource-policy: keep\n", 1)
	}
	return document
}

// conditional returns a template that renders a document only if a condition holds.
func conditional(condition, document string) string {
	if condition == "" {
		return document
	}
	return "{{- if " + condition + " }}\n" + document + "{{- end }}\n"
}
