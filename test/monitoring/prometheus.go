//go:build integration

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// prometheus is a running Prometheus.
type prometheus struct {
	address string
	log     framework.Log
}

// startPrometheus starts a Prometheus with a configuration file, and returns when it is ready. The Prometheus is
// stopped when the test ends.
func startPrometheus(t *testing.T, config string) *prometheus {
	t.Helper()
	p := &prometheus{address: framework.OwnAddress()}
	command := exec.Command(tool(t, "prometheus"), "--config.file", config, "--storage.tsdb.path", t.TempDir(),
		"--web.listen-address", p.address, "--log.level", "warn")
	command.Stdout, command.Stderr = &p.log, &p.log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the log of Prometheus:\n%s", p.log.String())
		}
	})
	framework.Eventually(t, "Prometheus to be ready", func(ctx context.Context) (bool, error) {
		response, err := p.get(ctx, "/-/ready", nil)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	return p
}

// tool returns the path of a program that make has built.
func tool(t *testing.T, name string) string {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: `make bin/prometheus` builds it", err)
	}
	return path
}

func (p *prometheus) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// api decodes the data of a response of the HTTP API (https://prometheus.io/docs/prometheus/latest/querying/api/) into
// data.
func (p *prometheus) api(ctx context.Context, path string, query url.Values, data any) error {
	response, err := p.get(ctx, "/api/v1/"+path, query)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("decoding the response to %s: %w", path, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %v: %s", path, query, answer.Error)
	}
	return nil
}

// sample is a sample of an instant vector.
type sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the value as a string
}

// query evaluates an expression at the current time.
func (p *prometheus) query(ctx context.Context, expression string) ([]sample, error) {
	var result struct{ Result []sample }
	err := p.api(ctx, "query", url.Values{"query": {expression}}, &result)
	return result.Result, err
}

// selected returns the names of the metrics that an expression selects.
func (p *prometheus) selected(ctx context.Context, expression string) ([]string, error) {
	var tree any
	if err := p.api(ctx, "parse_query", url.Values{"query": {expression}}, &tree); err != nil {
		return nil, err
	}
	return selectors(tree), nil
}

// selectors returns the names in the selectors of a syntax tree.
func selectors(node any) (names []string) {
	switch node := node.(type) {
	case map[string]any:
		if kind := node["type"]; kind == "vectorSelector" || kind == "matrixSelector" {
			return []string{node["name"].(string)}
		}
		for _, child := range node {
			names = append(names, selectors(child)...)
		}
	case []any:
		for _, child := range node {
			names = append(names, selectors(child)...)
		}
	}
	return names
}

// firing returns the names of the alerts that fire.
func (p *prometheus) firing(ctx context.Context) ([]string, error) {
	var result struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := p.api(ctx, "alerts", nil, &result); err != nil {
		return nil, err
	}
	var names []string
	for _, alert := range result.Alerts {
		if alert.State == "firing" {
			names = append(names, alert.Labels["alertname"])
		}
	}
	return names, nil
}
