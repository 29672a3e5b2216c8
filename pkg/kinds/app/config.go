package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

// configMaps are the ConfigMaps with the files of Apps. Each content has a ConfigMap of its own. Therefore a change of
// spec.config changes no file of the Pods that a failed rollout leaves, and a rollback finds its files.
type configMaps struct {
	kube     kubernetes.Interface
	resource children.Resource[*corev1.ConfigMap]
	owned    children.Type[*corev1.ConfigMap] // set by Bind
	// index finds ConfigMaps by the key of their App.
	index references.Index
	// checked has the state in which deletePrevious ran last, by the UID of the App.
	checked *utilcache.Expiring
}

func newConfigMaps(c kinds.Cluster, now clock.Clock) (*configMaps, error) {
	resource := c.ConfigMaps()
	index, err := references.NewIndex(resource.Informer, "app", func(config *corev1.ConfigMap) (keys []string) {
		if owner := metav1.GetControllerOfNoCopy(config); owner != nil && owner.Kind == groupVersionKind.Kind {
			keys = append(keys, cache.NewObjectName(config.Namespace, owner.Name).String())
		}
		return keys
	})
	return &configMaps{
		resource: resource, kube: c.Kube, index: index, checked: utilcache.NewExpiringWithClock(now),
	}, err
}

const (
	configVolume      = "app-config"
	defaultConfigPath = "/etc/app"
)

// hasConfig reports whether the App has files.
func hasConfig(app *v1alpha1.App) bool { return len(app.Spec.Config) > 0 }

// configName returns the name of the ConfigMap with the files of an App.
func configName(app *v1alpha1.App) string { return app.Name + "-" + digestOfJSON(app.Spec.Config) }

func desiredConfigMap(app *v1alpha1.App) *corev1.ConfigMap {
	config := &corev1.ConfigMap{ObjectMeta: metaOf(app), Immutable: ptr.To(true), Data: app.Spec.Config}
	config.Name = configName(app)
	return config
}

// mountConfig mounts the files of an App.
func mountConfig(app *v1alpha1.App, pod *corev1.PodSpec, container *corev1.Container) {
	path := cmp.Or(app.Spec.ConfigPath, defaultConfigPath)
	container.VolumeMounts = []corev1.VolumeMount{{Name: configVolume, MountPath: path, ReadOnly: true}}
	pod.Volumes = []corev1.Volume{{Name: configVolume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configName(app)}},
	}}}
}

// Bind implements children.Child.
func (c *configMaps) Bind(tracker *controller.Tracker) children.Step[*scope] {
	c.owned = c.resource.Type(tracker)
	return children.Step[*scope]{Name: nameConfigMap, Owned: c.resource.Informer, Apply: c.apply}
}

// apply creates the ConfigMap with the files of an App. Before, it deletes ConfigMaps that nothing needs, so that the
// new ConfigMap has room in a quota. The App does not depend on these deletions: their errors are only logged.
func (c *configMaps) apply(ctx context.Context, p *scope) error {
	if err := c.deletePrevious(ctx, p); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to delete ConfigMaps with previous files")
	}
	if !hasConfig(p.app) {
		return nil
	}
	_, err := c.owned.Ensure(ctx, p.Owner, desiredConfigMap(p.app), nil)
	return err
}

// previousRecheck is how often deletePrevious runs while the previous ConfigMaps stay the same.
const previousRecheck = time.Hour

// defaultHistory is the default of spec.revisionHistoryLimit of a Deployment.
const defaultHistory = 10

// deletePrevious deletes the ConfigMaps with previous files of an App, except those that the Deployment, a ReplicaSet
// or a Pod of the App names. To save requests, it deletes nothing while the App has at most as many of these ConfigMaps
// as the Deployment keeps previous ReplicaSets.
func (c *configMaps) deletePrevious(ctx context.Context, p *scope) error {
	history, previous := int32(defaultHistory), c.previousOf(p.app)
	d := p.observed.deployment
	if d != nil {
		history = ptr.Deref(d.Spec.RevisionHistoryLimit, defaultHistory)
	}
	if len(previous) <= int(history) {
		return nil
	}
	state := fmt.Sprint(history, previous)
	if checked, found := c.checked.Get(p.app.UID); found && checked == state {
		return nil
	}
	c.checked.Set(p.app.UID, state, previousRecheck)
	named, err := c.named(ctx, p.app, d)
	if err != nil {
		return err
	}
	for _, name := range previous {
		if !named.Has(name) {
			if err := c.owned.Prune(ctx, p.Owner, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// previousOf returns the sorted names of the ConfigMaps in the cache that have previous files of an App.
func (c *configMaps) previousOf(app *v1alpha1.App) (names []string) {
	for _, key := range c.index.Of(app) {
		names = append(names, key.Name)
	}
	if len(names) > 0 && hasConfig(app) {
		desired := configName(app)
		names = slices.DeleteFunc(names, func(name string) bool { return name == desired })
	}
	slices.Sort(names)
	return names
}

// named returns the names of the ConfigMaps that the Pods of an App mount, and that new Pods of its Deployment or of
// its ReplicaSets would mount. d is the Deployment, or nil. named lists only Pods without a ReplicaSet, such as the Pod
// of beforeRollout.
func (c *configMaps) named(ctx context.Context, app *v1alpha1.App, d *appsv1.Deployment) (sets.Set[string], error) {
	names := sets.New[string]()
	add := func(pod *corev1.PodSpec) {
		for _, volume := range pod.Volumes {
			if volume.ConfigMap != nil {
				names.Insert(volume.ConfigMap.Name)
			}
		}
	}
	if d != nil {
		add(&d.Spec.Template.Spec)
	}
	instances := []string{app.Name}
	if d != nil && d.Spec.Selector != nil { // the selector of an adopted Deployment may have another value
		instances = append(instances, cmp.Or(d.Spec.Selector.MatchLabels[instanceLabel], app.Name))
	}
	selector := fmt.Sprintf("%s in (%s)", instanceLabel, strings.Join(slices.Compact(instances), ","))
	all, err := c.kube.AppsV1().ReplicaSets(app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the ReplicaSets of App %s/%s: %w", app.Namespace, app.Name, err)
	}
	var hashes []string
	for i := range all.Items {
		add(&all.Items[i].Spec.Template.Spec)
		hashes = append(hashes, all.Items[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey])
	}
	if len(hashes) > 0 {
		selector += fmt.Sprintf(",%s notin (%s)", appsv1.DefaultDeploymentUniqueLabelKey, strings.Join(hashes, ","))
	}
	left, err := c.kube.CoreV1().Pods(app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of App %s/%s: %w", app.Namespace, app.Name, err)
	}
	for i := range left.Items {
		add(&left.Items[i].Spec)
	}
	return names, nil
}
