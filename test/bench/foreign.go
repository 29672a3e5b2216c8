package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// burden is the cost of objects that do not belong to the contestant.
type burden struct {
	Objects int
	// Heap is the live heap, and Received is the amount of received data, both in bytes. HeapWithout and ReceivedWithout
	// are the values without these objects.
	Heap, HeapWithout         float64
	Received, ReceivedWithout float64
}

// foreignObjects is the number of foreign objects: half are ConfigMaps, and half are Secrets. Each of
// them has almost foreignBytes.
const (
	foreignObjects = 700
	foreignBytes   = 1 << 20
)

// litter creates ConfigMaps and Secrets that belong to no contestant. A Secret can have at most 1 MiB
// (k8s.io/api/core/v1, MaxSecretSize).
func (l *lab) litter(ctx context.Context) error {
	text := strings.Repeat("x", foreignBytes-1024)
	return l.each(ctx, foreignObjects, func(ctx context.Context, i int) error {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("foreign-%03d", i)}
		if i%2 == 0 {
			_, err := l.kube.CoreV1().ConfigMaps(namespace(i)).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: meta, Data: map[string]string{"x": text},
			}, metav1.CreateOptions{})
			return err
		}
		_, err := l.kube.CoreV1().Secrets(namespace(i)).Create(ctx, &corev1.Secret{
			ObjectMeta: meta, StringData: map[string]string{"x": text},
		}, metav1.CreateOptions{})
		return err
	})
}

// load measures the heap of a contestant at rest, and the number of bytes that the contestant has received.
func (l *lab) load(ctx context.Context, dir string, c contestant, apps int) (heap, received float64, err error) {
	var bytes atomic.Int64
	g, err := openGateway(dir, l.config, func(*http.Request, []byte) {}, func(_ *http.Request, n int) {
		bytes.Add(int64(n))
	})
	if err != nil {
		return 0, 0, err
	}
	defer g.close()
	s, err := l.atRest(ctx, dir, c, apps, g.kubeconfig)
	return s.Heap, float64(bytes.Load()), err
}

// measureForeign measures the cost of objects that belong to no contestant.
func (o *options) measureForeign(ctx context.Context) error {
	o.results.Burdens = map[string]burden{}
	apps := o.rest[0]
	if err := o.lab.wipe(ctx); err != nil {
		return err
	}
	if err := o.lab.populate(ctx, o.out, o.who[0], o.tape, 0, apps); err != nil {
		return err
	}
	for _, littered := range []bool{false, true} {
		if littered {
			if err := o.lab.litter(ctx); err != nil {
				return err
			}
		}
		for _, c := range o.who {
			heap, received, err := o.lab.load(ctx, o.out, c, apps)
			if err != nil {
				return err
			}
			b := o.results.Burdens[c.name]
			b.Objects = foreignObjects
			if littered {
				b.Heap, b.Received = heap, received
			} else {
				b.HeapWithout, b.ReceivedWithout = heap, received
			}
			o.results.Burdens[c.name] = b
			o.tell("foreign objects: %v, %s: heap %.1f MiB, received %.1f MiB", littered, c.name, heap/(1<<20), received/(1<<20))
		}
	}
	return o.lab.wipe(ctx)
}
