package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const nodeName = "node"

func (c *cluster) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.path("kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit: the simulated storage has to keep up with tests that create hundreds of claims
	return kubernetes.NewForConfig(config)
}

// serving returns an error unless the API server is ready.
func (c *cluster) serving(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// usable creates the simulated node and the StorageClasses. It returns an error unless Pods can be created and run.
func (c *cluster) usable(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:        nodeName,
			Labels:      map[string]string{corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"},
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if err := ensureClasses(ctx, client); err != nil {
		return err
	}
	for _, taint := range node.Spec.Taints {
		return fmt.Errorf("the node still has the taint %s", taint.Key)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err
		}
	}
	return fmt.Errorf("the node is not Ready")
}

// compact removes the history of etcd, so that watches of older versions get a 410.
func (c *cluster) compact(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.etcdURL()}})
	if err != nil {
		return err
	}
	defer client.Close()
	now, err := client.Get(ctx, "compact")
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // nothing was written since the last compaction
	}
	return err
}
