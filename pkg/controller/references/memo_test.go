package references_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/references"
)

func TestMemoReadsAVersionOnce(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		reads int // of ten concurrent calls and then one more
	}{
		"once if the read succeeds":                               {nil, 1},
		"once for all concurrent calls, and again after an error": {errors.New("no answer"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memo, reads := references.NewMemo[string](1), 0
				ask := func() {
					got, err := memo.Of(t.Context(), &metav1.ObjectMeta{
						UID: "a", ResourceVersion: "1",
					}, func(context.Context) (string, error) {
						reads++
						<-time.After(time.Second) // fake time
						return "content", test.err
					})
					controllertest.Equal(t, "result", "content", got)
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

func TestMemoDistinguishesVersions(t *testing.T) {
	memo := references.NewMemo[string](10)
	for _, object := range []metav1.ObjectMeta{
		{UID: "a", ResourceVersion: "1"}, {UID: "a", ResourceVersion: "2"}, {UID: "b", ResourceVersion: "1"},
	} {
		want := string(object.UID) + object.ResourceVersion
		got, err := memo.Of(t.Context(), &object, func(context.Context) (string, error) { return want, nil })
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "result", want, got)
	}
}

func TestMemoDropsTheOldestObject(t *testing.T) {
	const size = 10
	memo, reads := references.NewMemo[int](size), 0
	read := func(version int) {
		if _, err := memo.Of(t.Context(), &metav1.ObjectMeta{
			UID: types.UID(fmt.Sprint(version)),
		}, func(context.Context) (int, error) {
			reads++
			return version, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * size {
		read(i)
	}
	for i := size; i < 2*size; i++ {
		read(i)
	}
	controllertest.Equal(t, "reads while the latest are asked for again", 2*size, reads)
	read(0)
	controllertest.Equal(t, "reads once the oldest is asked for again", 2*size+1, reads)
}

func TestMemoKeepsOneVersionOfAnObject(t *testing.T) {
	memo, reads := references.NewMemo[int](2), 0
	ask := func(uid types.UID, version int) {
		if _, err := memo.Of(t.Context(), &metav1.ObjectMeta{UID: uid, ResourceVersion: fmt.Sprint(version)},
			func(context.Context) (int, error) {
				reads++
				return version, nil
			}); err != nil {
			t.Fatal(err)
		}
	}
	ask("mine", 1)
	for version := range 100 {
		ask("often changed", version)
	}
	ask("mine", 1)
	controllertest.Equal(t, "reads", 101, reads)
}
