//go:build integration

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"windlass.dev/windlass/test/framework"
)

// read returns the content of a file in artifacts/monitoring.
func read(t *testing.T, name string) string {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "artifacts", "monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// decode decodes the YAML document of a kind in text.
func decode(t *testing.T, text, kind string, into any) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				t.Fatalf("decoding %s: %v", kind, err)
			}
			return
		}
	}
	t.Fatalf("there is no %s", kind)
}

// rule is an alert of a PrometheusRule.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// prometheusRule has the fields of a PrometheusRule, the type with which the Prometheus operator configures rules.
type prometheusRule struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// rules returns the PrometheusRule.
func rules(t *testing.T) (all prometheusRule) {
	t.Helper()
	decode(t, read(t, "rules.yaml"), "PrometheusRule", &all)
	return all
}

// alerts returns all alerts.
func alerts(t *testing.T) (all []rule) {
	t.Helper()
	for _, group := range rules(t).Spec.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// ruleFile writes the rules to a file for Prometheus, and returns its path. The file contains JSON, because JSON is
// valid YAML.
func ruleFile(t *testing.T, dir string, change func(string) string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"groups": lowered(t)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(change(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lowered returns spec.groups of the PrometheusRule with the field names of the manifest.
func lowered(t *testing.T) any {
	t.Helper()
	var all map[string]any
	decode(t, read(t, "rules.yaml"), "PrometheusRule", &all)
	return all["spec"].(map[string]any)["groups"]
}

var (
	minutes = regexp.MustCompile(`\b(\d+)m\b`)
	hours   = regexp.MustCompile(`\b(\d+)h\b`)
)

// quicken returns the rules with seconds in place of minutes and hours.
func quicken(rules string) string {
	return hours.ReplaceAllString(minutes.ReplaceAllString(rules, "${1}s"), "${1}s")
}

// panel is a panel of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

// panels returns the panels of the dashboard.
func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// podMonitor has the fields of a PodMonitor, the type with which the Prometheus operator selects Pods to scrape.
type podMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name, Namespace string
		Labels          map[string]string
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		PodMetricsEndpoints []endpoint `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

type endpoint struct {
	Port          string `json:"port"`
	Scheme        string `json:"scheme"`
	HonorLabels   bool   `json:"honorLabels"`
	Authorization struct {
		Credentials secretKey `json:"credentials"`
	} `json:"authorization"`
	TLSConfig struct {
		CA struct {
			Secret secretKey `json:"secret"`
		} `json:"ca"`
		ServerName string `json:"serverName"`
	} `json:"tlsConfig"`
}

type secretKey struct{ Name, Key string }

// scraped returns the PodMonitor.
func scraped(t *testing.T) (m podMonitor) {
	t.Helper()
	decode(t, read(t, "podmonitor.yaml"), "PodMonitor", &m)
	return m
}
