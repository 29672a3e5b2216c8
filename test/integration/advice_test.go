//go:build integration

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// followed has the messages whose commands tests have run.
var followed struct {
	sync.Mutex
	messages []string
}

// follow runs the command in an observed message as a user would, and returns its output. It fails the test if the
// command fails.
func follow(t *testing.T, message string) string {
	t.Helper()
	_, rest, _ := strings.Cut(message, "`kubectl ")
	command, _, found := strings.Cut(rest, "`")
	if !found {
		t.Fatalf("the message has no command: %s", message)
	}
	output, err := shared.Shell(t.Context(), "kubectl "+command)
	// The simulated kubelet serves no logs. With this error, the API server has found the Pod and its node.
	unserved := strings.HasPrefix(command, "logs ") && strings.Contains(output, "no preferred addresses")
	if err != nil && !unserved {
		t.Errorf("the command in the message %q: %v", message, err)
	}
	followed.Lock()
	defer followed.Unlock()
	followed.messages = append(followed.messages, message)
	return output
}

var (
	// messageRow matches a row of docs/messages.md that has a reason, the template of a message, and what to do.
	messageRow = regexp.MustCompile("(?m)^\\| `?(\\w*)`? *\\| (.*) \\| [^|]* \\|$")
	// withCommand matches the template of a message up to a command that users run.
	withCommand = regexp.MustCompile("^.*?`(kubectl |\\{command\\})[^`]*`")
	placeholder = regexp.MustCompile(`\\\{\w+\\\}`)
	// elsewhere has the reasons of messages whose commands this package cannot run, and says why.
	elsewhere = map[string]string{
		"TemplateReverted":     "the message names a command that somebody else has run",
		"SettingsNotApplied":   "a simulated Pod has no PostgreSQL that could reject settings",
		"CertificateNotLoaded": "a simulated Pod has no PostgreSQL that could keep its previous certificate",
		"StorageGrowing":       "simulated volumes grow at once",
		"ServerReplaced":       "a simulated Pod has no PostgreSQL that could be another server",
		"BackupStarting":       "a simulated Pod has no log",
		"BaseBackupFailed":     "a simulated Pod has no log",
		"BackupInterrupted":    "the operator does not connect to simulated Pods, and the command only reads",
		"Restoring":            "a simulated Pod has no log",
	}
)

// checkAdvice returns an error unless the tests have run the command of each message in docs/messages.md that has one.
// It runs after all tests.
func checkAdvice() error {
	if flag.Lookup("test.run").Value.String() != "" {
		return nil // some tests did not run
	}
	root, err := framework.Root()
	if err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "messages.md"))
	if err != nil {
		return err
	}
	templates := messageRow.FindAllStringSubmatch(string(page), -1)
	if len(templates) == 0 {
		return errors.New("docs/messages.md has no table of messages")
	}
	var missing []error
	for _, row := range templates {
		reason, template := row[1], withCommand.FindString(row[2])
		if _, excused := elsewhere[reason]; excused || template == "" {
			continue
		}
		pattern := regexp.MustCompile(placeholder.ReplaceAllString(regexp.QuoteMeta(template), `[\s\S]*`))
		if !slices.ContainsFunc(followed.messages, pattern.MatchString) {
			missing = append(missing, fmt.Errorf("no test runs the command in the message %q", template))
		}
	}
	return errors.Join(missing...)
}

// readyMessage waits until the message of the condition Ready of an object contains a text, and returns the message.
func readyMessage(t *testing.T, namespace, object, text string) (message string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the message of %s is %q", object, message)
		}
	}()
	framework.Eventually(t, object+" to say "+text, func(ctx context.Context) (_ bool, err error) {
		message, err = shared.Kubectl(ctx, "", "get", object, "-n", namespace, "-o",
			`jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
		return strings.Contains(message, text), err
	})
	return message
}

// tooMuch are requests that no node can satisfy.
var tooMuch = corev1.ResourceRequirements{
	Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")},
}

// advice is a message with a command, and what follows from the command.
type advice struct {
	// prepare brings an object into a state, and returns its name and a part of the message.
	prepare func(t *testing.T, namespace string) (object, text string)
	// check may be nil.
	check func(t *testing.T, namespace, output string)
}

// TestCommandsInMessagesDoWhatTheySay takes the commands out of the statuses of objects, and runs them.
func TestCommandsInMessagesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, cases := range []map[string]advice{advicesOfCommands, advicesOfDatabase} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				namespace := shared.NewNamespace(t)
				object, text := c.prepare(t, namespace)
				output := follow(t, readyMessage(t, namespace, object, text))
				if c.check != nil {
					c.check(t, namespace, output)
				}
			})
		}
	}
}

// advicesOfCommands are the cases of App and At.
var advicesOfCommands = map[string]advice{
	"stopping the command of beforeRollout": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			createWithCommand(t, namespace, "sleep infinity")
			return "app/web", "To stop the command"
		},
		check: func(t *testing.T, namespace, _ string) {
			t.Helper()
			shared.AppReason(t, namespace, "web", "BeforeRolloutFailed")
		},
	},
	"stopping the command for a previous spec": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			createWithCommand(t, namespace, "sleep infinity")
			readyMessage(t, namespace, "app/web", "To stop the command")
			startedPod(t, namespace, "web-before-rollout")
			shared.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
				app.Spec.BeforeRollout.Command = []string{"true"}
			})
			return "app/web", "for a previous spec"
		},
		check: func(t *testing.T, namespace, _ string) {
			t.Helper()
			shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
		},
	},
	"a command of beforeRollout that fails": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			createWithCommand(t, namespace, "exit 3")
			return "app/web", "exit code 3"
		},
	},
	"a Pod of beforeRollout that no node can run": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.ProbedApp("web:1")
			spec.BeforeRollout, spec.Resources = &v1alpha1.AppBeforeRollout{Command: []string{"true"}}, tooMuch
			shared.CreateApp(t, namespace, "web", spec)
			return "app/web", "which runs beforeRollout, does not start"
		},
		check: wantUnschedulable,
	},
	"a Pod of an App that no node can run": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.ProbedApp("web:1")
			spec.Resources = tooMuch
			shared.CreateApp(t, namespace, "web", spec)
			return "app/web", "kubectl describe pod"
		},
		check: wantUnschedulable,
	},
	"a Pod of an App that is not ready": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			shared.CreateApp(t, namespace, "web", framework.ProbedApp("web:1"))
			shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
			reportPods(t, namespace, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
			return "app/web", "Not all Pods are available"
		},
		check: func(t *testing.T, _, output string) {
			t.Helper()
			if !strings.Contains(output, "web-") {
				t.Errorf("the command lists no Pod of the App: %s", output)
			}
		},
	},
	"a Deployment that somebody has paused": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			shared.CreateApp(t, namespace, "web", framework.ProbedApp("web:1"))
			shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
			if _, err := shared.Kubectl(t.Context(), "", "rollout", "pause", "deployment/web", "-n", namespace); err != nil {
				t.Fatal(err)
			}
			shared.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Image = "web:2" })
			return "app/web", "is paused"
		},
		check: func(t *testing.T, namespace, _ string) {
			t.Helper()
			shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
		},
	},
	"an autoscaler without metrics": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			spec := framework.ProbedApp("web:1")
			spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			spec.Autoscaling = &v1alpha1.AppAutoscaling{MaxReplicas: 3}
			shared.CreateApp(t, namespace, "web", spec)
			shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
			// The controller of Kubernetes keeps this time as long as the cluster has no metrics.
			since := `{"status":{"conditions":[{"type":"ScalingActive","status":"False","reason":"FailedGetResourceMetric",` +
				`"lastTransitionTime":"2026-02-10T20:30:00Z"}]}}`
			if _, err := shared.Kubectl(t.Context(), "", "patch", "hpa", "web", "-n", namespace, "--subresource=status",
				"-p", since); err != nil {
				t.Fatal(err)
			}
			return "app/web", "has not been able to scale the App"
		},
		check: func(t *testing.T, _, output string) {
			t.Helper()
			if !strings.Contains(output, "ScalingActive") {
				t.Errorf("the output of the command has no condition ScalingActive: %s", output)
			}
		},
	},
	"a Pod of an At that no node can run": {
		prepare: func(t *testing.T, namespace string) (object, text string) {
			t.Helper()
			shared.Create(t, namespace, "task", "true", func(at *v1.At) { at.Spec.Resources = tooMuch })
			return "at/task", "does not start"
		},
		check: wantUnschedulable,
	},
}

// createWithCommand creates an App whose beforeRollout runs a line of shell.
func createWithCommand(t *testing.T, namespace, line string) {
	t.Helper()
	spec := framework.ProbedApp("web:1")
	spec.BeforeRollout = &v1alpha1.AppBeforeRollout{Command: []string{"sh", "-c", line}}
	shared.CreateApp(t, namespace, "web", spec)
}

// wantUnschedulable checks that the output of `kubectl describe` says why no node can run a Pod.
func wantUnschedulable(t *testing.T, _, output string) {
	t.Helper()
	if !strings.Contains(output, "Insufficient cpu") {
		t.Errorf("the output of the command does not name the cause:\n%s", output)
	}
}
