package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestAVersionIsReadOnceForAllApps(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		reads int // by ten reconciles at once, and then by one more
	}{
		"if it can be read": {nil, 1},
		"and once for all that wait for it if it cannot be": {errors.New("away"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, reads := newDigests(), 0
				ask := func() {
					in, err := d.of(t.Context(), content{name: "a"}, func(context.Context) (input, error) {
						reads++
						<-time.After(time.Second) // of the bubble
						return input{Digest: "d"}, test.err
					})
					controllertest.Equal(t, "digest", "d", in.Digest)
					controllertest.Equal(t, "failed", test.err != nil, err != nil)
				}
				var asking sync.WaitGroup
				for range 10 {
					asking.Go(ask)
				}
				asking.Wait()
				ask()
				controllertest.Equal(t, "reads", test.reads, reads)
			})
		})
	}
}

func TestDigestsRememberABoundedNumberOfVersions(t *testing.T) {
	d := newDigests()
	for i := range 3 * maxDigests {
		if _, err := d.of(t.Context(), content{version: fmt.Sprint(i)}, func(context.Context) (input, error) { return input{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "versions", maxDigests, d.known.Len())
	controllertest.Equal(t, "requests", 0, len(d.reading))
}

func TestAChangeOfASecretsMetadataIsReadAndNotWritten(t *testing.T) {
	w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }), secret("db-credentials"))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	before, reads := w.deployment(), w.reads()
	touched := secret("db-credentials")
	touched.ResourceVersion, touched.Annotations = "6", map[string]string{"touched": "yes"}
	if _, err := w.kube.CoreV1().Secrets("default").Update(t.Context(), touched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pipeline := w.fill()
	for range 3 {
		if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "reads", 1, w.reads()-reads)
	controllertest.Equal(t, "Deployment", before, w.deployment())
}
