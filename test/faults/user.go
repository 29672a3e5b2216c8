package faults

import (
	"encoding/json"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// user executes the steps of a scenario.
type user struct{ run *run }

// step is an action of the user.
type step func(u *user)

// externalWrite sends a write of a user or of the simulator, and reports whether it succeeded.
func (r *run) externalWrite(
	method string, resource int, namespace, name, subresource, contentType string, body any,
) bool {
	text, err := json.Marshal(body)
	if err != nil {
		r.addViolation("encoding %s: %v", name, err)
		return false
	}
	r.beginInterval()
	resp := r.bridge.do(call{
		method: method, path: resources[resource].path(namespace, name, subresource),
		contentType: contentType, body: text, resource: resource, history: r.history,
	})
	r.log("by", nil, method+" "+resources[resource].Resource+" "+r.stableName(name)+" "+subresource+" "+
		http.StatusText(resp.status), resp.err, nil)
	if resp.err != nil || resp.status >= http.StatusMultipleChoices {
		r.addViolation("external %s of %s %s failed: status %d, error %v, body %s", method,
			resources[resource].Resource, name, resp.status, resp.err, resp.body)
		return false
	}
	r.servers.checkPromise()
	return true
}

// create creates an object in the namespace of the run. Here and below, group and name are the group and name of the
// object's resource.
func (u *user) create(group, name string, object metav1.Object) {
	i := indexOf(group, name)
	u.run.externalWrite(http.MethodPost, i, u.run.namespace, "", "", "application/json",
		u.withType(object, resources[i].kind, resources[i].GroupVersion().String()))
}

// update replaces an object in the namespace of the run. It keeps the finalizers.
func (u *user) update(group, name string, object metav1.Object) {
	i := indexOf(group, name)
	body := u.withType(object, resources[i].kind, resources[i].GroupVersion().String())
	for _, o := range u.run.history.current() {
		if o.resource == i && o.Name == object.GetName() {
			body["metadata"].(map[string]any)["resourceVersion"] = o.ResourceVersion
			body["metadata"].(map[string]any)["finalizers"] = o.Finalizers
		}
	}
	u.run.externalWrite(http.MethodPut, i, u.run.namespace, object.GetName(), "", "application/json", body)
}

// withType returns an object as decoded JSON, with its kind and API version.
func (u *user) withType(object any, kind, version string) (body map[string]any) {
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		u.run.addViolation("encoding a %s: %v", kind, err)
		return map[string]any{}
	}
	body["kind"], body["apiVersion"] = kind, version
	return body
}

// patch sends a JSON merge patch for an object in the namespace of the run.
func (u *user) patch(group, name, object string, mergePatch any) {
	u.run.externalWrite(http.MethodPatch, indexOf(group, name), u.run.namespace, object, "",
		string(types.MergePatchType), mergePatch)
}

// delete deletes an object in the namespace of the run, with background propagation like kubectl.
func (u *user) delete(group, name, object string) {
	u.deleteWithPolicy(metav1.DeletePropagationBackground, group, name, object)
}

// orphan deletes an object and orphans its children.
func (u *user) orphan(group, name, object string) {
	u.deleteWithPolicy(metav1.DeletePropagationOrphan, group, name, object)
}

func (u *user) deleteWithPolicy(policy metav1.DeletionPropagation, group, name, object string) {
	u.run.externalWrite(http.MethodDelete, indexOf(group, name), u.run.namespace, object, "", "application/json",
		map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy})
}

// deleteEarly deletes the object that the last step of the scenario deletes.
func (u *user) deleteEarly() {
	for _, o := range u.run.history.current() {
		if o.resource == u.run.scenario.earlyDeletion && o.DeletionTimestamp == nil {
			u.run.delete(o)
		}
	}
}

// timeIn returns the time d from now, in the format of a schedule.
func (u *user) timeIn(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// createServiceAccount creates the default ServiceAccount of the namespace, which Pods need. The observer does not
// watch ServiceAccounts.
func (u *user) createServiceAccount() {
	text, _ := json.Marshal(u.withType(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		"ServiceAccount", "v1")) // withType returns decoded JSON, which can always be encoded
	resp := u.run.bridge.do(call{
		method: http.MethodPost, path: "/api/v1/namespaces/" + u.run.namespace + "/serviceaccounts",
		contentType: "application/json", body: text, resource: -1,
	})
	if resp.err != nil || resp.status >= http.StatusMultipleChoices {
		u.run.addViolation("creating the default ServiceAccount: status %d, error %v, body %s", resp.status, resp.err,
			resp.body)
	}
}

// wait returns a step that lets time pass. The operator and the simulator continue.
func wait(d time.Duration) step {
	return func(u *user) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			u.run.deliverEvents()
			if !simulateStep(u.run) {
				u.run.await(time.Until(end))
			}
		}
	}
}
