package app

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// Users finds the Apps that use a previous content of a connection Secret, for the rotations of Database and
// ExternalDatabase. It reads the caches and the indexes of the controller of App.
type Users struct {
	apps, deployed, running cache.SharedIndexInformer
	deployments             children.Cache[*appsv1.Deployment]
	hasSynced               func(cache.SharedIndexInformer) bool
}

// NewUsers returns the Users of a cluster. New, which adds the indexes, has to be called for the same cluster.
func NewUsers(c kinds.Cluster) *Users { return newUsers(c, cache.SharedIndexInformer.HasSynced) }

func newUsers(c kinds.Cluster, hasSynced func(cache.SharedIndexInformer) bool) *Users {
	deployed := c.Deployments().Informer
	return &Users{
		apps:        c.Kinds.Windlass().V1alpha1().Apps().Informer(),
		deployed:    deployed,
		running:     c.Owned.Core().V1().Pods().Informer(),
		deployments: children.CacheOf[*appsv1.Deployment](deployed.GetIndexer()),
		hasSynced:   hasSynced,
	}
}

// unknownUsers is the result of OfPreviousContent while the caches do not have all Apps, Deployments and Pods yet.
const unknownUsers = "the list of Apps"

// OfPreviousContent implements the function type credentials.Users: it returns each App that may still use a previous
// content of a Secret, in the form "App web", sorted. These are the Apps that refer to the Secret and have
//   - a Deployment whose template is for another content, unless it has 0 replicas and no Pod, or
//   - a Deployment whose status does not show that all its Pods have its template, or
//   - Pods that have not ended and whose inputs differ from the inputs of the Deployment's template, or
//   - Pods that have not ended, and no Deployment in the cache, or
//   - a Pod that runs beforeRollout and was created before the last rotation or within a minute after it.
//
// runsWithPrevious checks the last of these points, and deploysPrevious the others.
func (u *Users) OfPreviousContent(secret *corev1.Secret) (users []string) {
	found, err := u.apps.GetIndexer().ByIndex(inputIndex, indexKey(kindSecret, secret.Namespace, secret.Name))
	if err != nil || !u.hasSynced(u.apps) || !u.hasSynced(u.deployed) || !u.hasSynced(u.running) {
		return []string{unknownUsers}
	}
	for _, obj := range found {
		app, ok := obj.(*v1alpha1.App)
		if ok && (u.deploysPrevious(app, secret) || u.runsWithPrevious(app, secret)) {
			users = append(users, "App "+app.Name)
		}
	}
	slices.Sort(users) // the index has no order, and the names are in a status
	return users
}

// deploysPrevious reports whether the Deployment of an App, or one of its Pods, may use a previous content of a Secret.
func (u *Users) deploysPrevious(app *v1alpha1.App, secret *corev1.Secret) bool {
	left := slices.DeleteFunc((&podCache{u.running}).podsOf(app), hasEnded)
	d, err := u.deployments.Get(app.Namespace, app.Name)
	if err != nil { // also if the Deployment is not cached because it exceeds a budget
		return len(left) > 0
	}
	if ptr.Deref(d.Spec.Replicas, 1) == 0 && len(left) == 0 && d.Status.Replicas == 0 && hasReplaced(d) {
		return false
	}
	if !deploysCurrent(d, secret) || !hasReplaced(d) {
		return true
	}
	return slices.ContainsFunc(left, func(pod *corev1.Pod) bool {
		return pod.Annotations[inputsDigestAnnotation] != d.Spec.Template.Annotations[inputsDigestAnnotation]
	})
}

// hasReplaced reports whether the Deployment controller has replaced all Pods of previous templates. The status of the
// Deployment also counts Pods that the cache lacks because another client has removed ManagedByLabel.
func hasReplaced(d *appsv1.Deployment) bool {
	return isRolledOut(d) && d.Status.UnavailableReplicas == 0 && ptr.Deref(d.Status.TerminatingReplicas, 0) == 0
}

// deploysCurrent reports whether the template of a Deployment is for the current content of a Secret, or does not use
// the Secret.
func deploysCurrent(d *appsv1.Deployment, secret *corev1.Secret) bool {
	all := contentsIn(d)
	if d.Annotations[inputsAnnotation]+d.Spec.Template.Annotations[inputsDigestAnnotation] == "" {
		return true // the Pods use no content, or reload it
	}
	if all == nil || all.digest() != d.Spec.Template.Annotations[inputsDigestAnnotation] {
		return false
	}
	used, found := all[input{kind: kindSecret, name: secret.Name}.String()]
	return !found || used.Digest == digestOf(secret, secret.Data)
}

// startTolerance allows for the difference between the clocks of the operator and of the API server.
const startTolerance = time.Minute

// runsWithPrevious reports whether a Pod runs beforeRollout of an App and may have been created before the last
// rotation of a Secret.
func (u *Users) runsWithPrevious(app *v1alpha1.App, secret *corev1.Secret) bool {
	obj, found, err := u.running.GetStore().GetByKey(cache.NewObjectName(app.Namespace, runPodName(app)).String())
	pod, ok := obj.(*corev1.Pod)
	if err != nil || !found || !ok || hasEnded(pod) || isGated(pod) {
		return false
	}
	rotated, err := credentials.RotatedAt(secret) // an unknown time could be any time
	return err != nil || pod.CreationTimestamp.Time.Before(rotated.Add(startTolerance))
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
