package faults

import (
	"encoding/json"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// user is whoever uses the operator in a scenario.
type user struct{ run *run }

// step is something that the user does.
type step func(u *user)

// write is a request of anybody but the operator's.
func (r *run) write(method string, resource int, namespace, name, subresource, contentType string, body any) bool {
	text, err := json.Marshal(body)
	if err != nil {
		r.violate("writing %s: %v", name, err)
		return false
	}
	r.someoneActs()
	answer := r.bridge.do(call{
		method: method, path: resources[resource].path(namespace, name, subresource),
		contentType: contentType, body: text, resource: resource, history: r.history,
	})
	r.log("by", nil, method+" "+resources[resource].Resource+" "+r.plain(name)+" "+subresource+" "+http.StatusText(answer.status), answer.err, nil)
	if answer.err != nil || answer.status >= http.StatusMultipleChoices {
		r.violate("%s %s %s of somebody else: %d %v %s", method, resources[resource].Resource, name, answer.status, answer.err, answer.body)
		return false
	}
	return true
}

// create makes an object in the scope.
func (u *user) create(group, name string, object metav1.Object) {
	i := indexOf(group, name)
	u.run.write(http.MethodPost, i, u.run.scope, "", "", "application/json", u.typed(object, resources[i].kind, resources[i].GroupVersion().String()))
}

// replace gives an object in the scope another spec.
func (u *user) replace(group, name string, object metav1.Object) {
	i := indexOf(group, name)
	body := u.typed(object, resources[i].kind, resources[i].GroupVersion().String())
	for _, o := range u.run.history.current() {
		if o.resource == i && o.Name == object.GetName() {
			body["metadata"].(map[string]any)["resourceVersion"] = o.ResourceVersion
			body["metadata"].(map[string]any)["finalizers"] = o.Finalizers
		}
	}
	u.run.write(http.MethodPut, i, u.run.scope, object.GetName(), "", "application/json", body)
}

// typed is an object as it is sent, with its type.
func (u *user) typed(object any, kind, version string) (body map[string]any) {
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		u.run.violate("writing a %s: %v", kind, err)
		return map[string]any{}
	}
	body["kind"], body["apiVersion"] = kind, version
	return body
}

// change patches an object in the scope, by a JSON merge patch.
func (u *user) change(group, name, object string, patch any) {
	u.run.write(http.MethodPatch, indexOf(group, name), u.run.scope, object, "", string(types.MergePatchType), patch)
}

// delete deletes an object in the scope, as kubectl does.
func (u *user) delete(group, name, object string) {
	u.deleteBy(metav1.DeletePropagationBackground, group, name, object)
}

// orphan deletes an object without its children.
func (u *user) orphan(group, name, object string) {
	u.deleteBy(metav1.DeletePropagationOrphan, group, name, object)
}

func (u *user) deleteBy(policy metav1.DeletionPropagation, group, name, object string) {
	u.run.write(http.MethodDelete, indexOf(group, name), u.run.scope, object, "", "application/json",
		map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy})
}

// deleteEarly deletes the object whose deletion is a scenario's last step.
func (u *user) deleteEarly() {
	for _, o := range u.run.history.current() {
		if o.resource == u.run.scenario.early && o.DeletionTimestamp == nil {
			u.run.delete(o)
		}
	}
}

// in is a time as schedules have it.
func (u *user) in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// makeAccount makes the account that a namespace has, without which there are no Pods. It is
// of a type that nobody watches here.
func (u *user) makeAccount() {
	text, _ := json.Marshal(u.typed(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, "ServiceAccount", "v1")) // it was read from JSON
	answer := u.run.bridge.do(call{
		method: http.MethodPost, path: "/api/v1/namespaces/" + u.run.scope + "/serviceaccounts", contentType: "application/json", body: text, resource: -1,
	})
	if answer.err != nil || answer.status >= http.StatusMultipleChoices {
		u.run.violate("making an account: %d %v %s", answer.status, answer.err, answer.body)
	}
}

// wait lets time pass, in which operator and nature go on.
func wait(d time.Duration) step {
	return func(u *user) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			u.run.drain()
			if !nature(u.run) {
				u.run.await(time.Until(end))
			}
		}
	}
}
