//go:build integration

package neighbours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deployer is a tool that makes a namespace, and a Platform of the same name, like a Git repository.
type deployer interface {
	// sync applies the objects in Git, and deletes the objects that it applied before and that are no longer in Git. It
	// returns the objects that differed from Git, if the tool says so.
	sync(ctx context.Context, git []*unstructured.Unstructured) (differed []string, err error)
	// close ends what the tool runs in the background.
	close()
}

// kubectl is a person who applies and deletes manifests.
type kubectl struct {
	namespace string
	applied   []*unstructured.Unstructured
}

func newKubectl(namespace string) (deployer, error) { return &kubectl{namespace: namespace}, nil }

func (k *kubectl) sync(ctx context.Context, git []*unstructured.Unstructured) (differed []string, err error) {
	if _, err := shared.Kubectl(ctx, list(git), "apply", "-n", k.namespace, "-f", "-"); err != nil {
		return nil, err
	}
	if gone := difference(k.applied, git); len(gone) > 0 {
		if _, err := shared.Kubectl(ctx, list(gone), "delete", "-n", k.namespace, "--wait=false", "-f", "-"); err != nil {
			return nil, err
		}
	}
	k.applied = git
	return nil, nil
}

func (k *kubectl) close() {}

// applySet is `kubectl apply --prune --applyset`.
type applySet struct{ namespace string }

func newApplySet(namespace string) (deployer, error) { return applySet{namespace}, nil }

func (a applySet) sync(ctx context.Context, git []*unstructured.Unstructured) (differed []string, err error) {
	output, err := shared.Kubectl(ctx, list(git), "apply", "-n", a.namespace, "--prune", "--applyset=configmaps/set",
		"-f", "-")
	for line := range strings.Lines(output) {
		if strings.Contains(line, " pruned") {
			differed = append(differed, line)
		}
	}
	return differed, err
}

func (applySet) close() {}

// list returns the manifest of a list of objects.
func list(objects []*unstructured.Unstructured) string {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return err.Error() // kubectl rejects it
	}
	return string(text)
}

// difference returns the objects in before that are not in after.
func difference(before, after []*unstructured.Unstructured) (gone []*unstructured.Unstructured) {
	for _, object := range before {
		if len(without(after, object.GetKind(), object.GetName())) == len(after) {
			gone = append(gone, object)
		}
	}
	return gone
}

// flux is the library with which Flux applies, detects drift and prunes.
type flux struct {
	namespace string
	manager   *ssa.ResourceManager
	applied   []*unstructured.Unstructured
}

func newFlux(namespace string) (deployer, error) {
	c, err := client.New(shared.Config(), client.Options{})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{})
	return &flux{namespace: namespace, manager: ssa.NewResourceManager(c, poller, ssa.Owner{
		Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io",
	})}, nil
}

func (f *flux) sync(ctx context.Context, git []*unstructured.Unstructured) (differed []string, err error) {
	git = copies(git)
	f.manager.SetOwnerLabels(git, f.namespace, f.namespace)
	applied, err := f.manager.ApplyAllStaged(ctx, git, ssa.DefaultApplyOptions())
	if err != nil {
		return nil, err
	}
	options := ssa.DeleteOptions{
		PropagationPolicy: metav1.DeletePropagationBackground,
		Inclusions:        f.manager.GetOwnerLabels(f.namespace, f.namespace),
	}
	deleted, err := f.manager.DeleteAll(ctx, difference(f.applied, git), options)
	if err != nil {
		return nil, err
	}
	f.applied = git
	for _, entry := range slices.Concat(applied.Entries, deleted.Entries) {
		if entry.Action != ssa.UnchangedAction {
			differed = append(differed, entry.String())
		}
	}
	return differed, nil
}

func (f *flux) close() {}

// argo is the engine of Argo CD. It finds its objects by a label, as Argo CD did by default until version 3.
type argo struct {
	namespace  string
	serverSide bool
	live       cache.ClusterCache
	engine     engine.GitOpsEngine
	stop       engine.StopFunc
}

// instanceLabel is the label by which Argo CD finds its objects.
const instanceLabel = "app.kubernetes.io/instance"

func newArgo(namespace string) (deployer, error) { return startArgo(namespace, false) }

func newServerSideArgo(namespace string) (deployer, error) { return startArgo(namespace, true) }

func startArgo(namespace string, serverSide bool) (deployer, error) {
	config := shared.Config()
	instance := func(object *unstructured.Unstructured, _ bool) (info any, cacheManifest bool) {
		name := object.GetLabels()[instanceLabel]
		return name, name != ""
	}
	live := cache.NewClusterCache(config, cache.SetLogr(logr.Discard()), cache.SetNamespaces([]string{namespace}),
		cache.SetClusterResources(true), cache.SetPopulateResourceInfoHandler(instance))
	a := &argo{
		namespace: namespace, serverSide: serverSide, live: live,
		engine: engine.NewEngine(config, live, engine.WithLogr(logr.Discard())),
	}
	var err error
	a.stop, err = a.engine.Run()
	return a, err
}

// sync applies only if an object differs, as Argo CD does when it syncs and heals by itself.
func (a *argo) sync(ctx context.Context, git []*unstructured.Unstructured) (differed []string, err error) {
	git = copies(git)
	for _, object := range git {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[instanceLabel] = a.namespace
		object.SetLabels(labels)
	}
	if differed, err = a.compare(git); err != nil || len(differed) == 0 {
		return nil, err
	}
	results, err := a.engine.Sync(ctx, git, a.manages, "HEAD", a.namespace, sync.WithPrune(true),
		sync.WithServerSideApply(a.serverSide), sync.WithServerSideApplyManager("argocd-controller"),
		sync.WithLogr(logr.Discard()))
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, r := range results {
		if r.Status == common.ResultCodeSyncFailed || strings.Contains(string(r.HookPhase), "Failed") {
			failures = append(failures, fmt.Errorf("%s: %s", r.ResourceKey.String(), r.Message))
		}
	}
	return differed, errors.Join(failures...)
}

func (a *argo) manages(r *cache.Resource) bool { return r.Info == a.namespace }

// compare returns the objects that are out of sync, and those that the next sync prunes.
func (a *argo) compare(git []*unstructured.Unstructured) (differed []string, err error) {
	live, err := a.live.GetManagedLiveObjs(git, a.manages)
	if err != nil {
		return nil, err
	}
	pairs := sync.Reconcile(git, live, a.namespace, a.live)
	diffs, err := diff.DiffArray(pairs.Target, pairs.Live, diff.WithLogr(logr.Discard()))
	if err != nil {
		return nil, err
	}
	for i, target := range pairs.Target {
		switch {
		case target == nil:
			differed = append(differed, "prune "+pairs.Live[i].GetKind()+" "+pairs.Live[i].GetName())
		case diffs.Diffs[i].Modified:
			differed = append(differed, target.GetKind()+" "+target.GetName())
		}
	}
	return differed, nil
}

func (a *argo) close() { a.stop() }

// copies returns copies of the objects, to which a tool may add labels.
func copies(git []*unstructured.Unstructured) []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, 0, len(git))
	for _, object := range git {
		all = append(all, object.DeepCopy())
	}
	return all
}
