package controller_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/controllertest"
)

func TestGuard(t *testing.T) {
	a, b := keyOf("a"), keyOf("b")
	for name, test := range map[string]struct {
		happens func(g *controller.Guard, toys, pods *controllertest.Store)
		want    bool // whether a may go on
	}{
		"a key without writes may go on": {
			func(*controller.Guard, *controllertest.Store, *controllertest.Store) {}, true,
		},
		"a write that the cache does not hold yet is waited for": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "101") }, false,
		},
		"a write that the cache holds is not": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "101"); toys.Set("101") }, true,
		},
		"a cache that has gone further holds it as well": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "101"); toys.Set("1000") }, true,
		},
		"a cache that moves without reaching it does not": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "1000"); toys.Set("999") }, false,
		},
		"versions are numbers of any length": {
			func(g *controller.Guard, toys, _ *controllertest.Store) {
				g.Wrote(a, toys, "100000000000000000000000000000001")
				toys.Set("100000000000000000000000000000000")
			}, false,
		},
		"the write of another key does not matter": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(b, toys, "101") }, true,
		},
		"of several writes to one type the newest counts": {
			func(g *controller.Guard, toys, _ *controllertest.Store) {
				g.Wrote(a, toys, "101")
				g.Wrote(a, toys, "103")
				toys.Set("102")
			}, false,
		},
		"of several writes the newest counts even if the last changed nothing and got an old version": {
			func(g *controller.Guard, toys, _ *controllertest.Store) {
				g.Wrote(a, toys, "103")
				g.Wrote(a, toys, "42")
			}, false,
		},
		"of two types both have to be there: the first is missing": {
			func(g *controller.Guard, toys, pods *controllertest.Store) {
				g.Wrote(a, toys, "101")
				g.Wrote(a, pods, "102")
				pods.Set("102")
			}, false,
		},
		"of two types both have to be there: the second is missing": {
			func(g *controller.Guard, toys, pods *controllertest.Store) {
				g.Wrote(a, toys, "101")
				g.Wrote(a, pods, "102")
				toys.Set("102")
			}, false,
		},
		"of two types both have to be there: they are": {
			func(g *controller.Guard, toys, pods *controllertest.Store) {
				g.Wrote(a, toys, "101")
				g.Wrote(a, pods, "102")
				toys.Set("101")
				pods.Set("102")
			}, true,
		},
		"a version that is no number holds nothing back": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "v101") }, true,
		},
		"no version holds nothing back": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "") }, true,
		},
		"a cache whose version is no number holds nothing back": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { toys.Set(""); g.Wrote(a, toys, "101") }, true,
		},
		"a cache that went back in time holds nothing back": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "101"); toys.Set("7") }, true,
		},
		"an object that is gone is forgotten": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "101"); g.Forget(a) }, true,
		},
		"and only that": {
			func(g *controller.Guard, toys, _ *controllertest.Store) { g.Wrote(a, toys, "101"); g.Forget(b) }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var toys, pods controllertest.Store
			toys.Set("100")
			pods.Set("100")
			guard := controller.NewGuard()
			test.happens(guard, &toys, &pods)
			for range 2 { // asking changes nothing
				if got := guard.CaughtUp(a); got != test.want {
					t.Errorf("caught up: %v, wanted %v", got, test.want)
				}
			}
		})
	}
}

func TestGuardForgetsWhatTheCacheHeld(t *testing.T) {
	var toys controllertest.Store
	toys.Set("100")
	guard := controller.NewGuard()
	guard.Wrote(keyOf("a"), &toys, "101")
	toys.Set("101")
	if !guard.CaughtUp(keyOf("a")) {
		t.Fatal("not caught up")
	}
	toys.Set("100")
	if !guard.CaughtUp(keyOf("a")) {
		t.Error("a write that the cache held once is waited for again")
	}
}

func TestAGuardKnowsWhatItsProcessIsDoneWith(t *testing.T) {
	g, a, b := controller.NewGuard(), keyOf("a"), keyOf("b")
	g.Finished(a, "Pod", "pod-uid")
	for _, c := range []struct {
		key  controller.Key
		what string
		uid  types.UID
		want bool
	}{
		{a, "Pod", "pod-uid", true}, {a, "Pod", "other-uid", false}, {a, "Job", "pod-uid", false}, {b, "Pod", "pod-uid", false}, {a, "Job", "", false},
	} {
		if got := g.IsFinished(c.key, c.what, c.uid); got != c.want {
			t.Errorf("of %v it knows %t", c, got)
		}
	}
	if !g.CaughtUp(a) {
		t.Error("that holds a pass back")
	}
	g.Finished(a, "Pod", "next-uid")
	if g.IsFinished(a, "Pod", "pod-uid") || !g.IsFinished(a, "Pod", "next-uid") {
		t.Error("it keeps more than the last of a name")
	}
	g.Forget(a)
	if g.IsFinished(a, "Pod", "next-uid") {
		t.Error("it knows it of a key that is forgotten")
	}
}

func TestWhatIsSettled(t *testing.T) {
	g, a, b := controller.NewGuard(), keyOf("a"), keyOf("b")
	g.Settle(a, "Service", 1)
	g.Settle(a, "Deployment", 2)
	g.Settle(a, "Service", 3)
	for name, c := range map[string]struct {
		key   controller.Key
		what  string
		token uint64
		want  bool
	}{
		"what was recorded last":       {a, "Service", 3, true},
		"not what was recorded before": {a, "Service", 1, false},
		"another object of the key":    {a, "Deployment", 2, true},
		"not by the token of another":  {a, "Deployment", 3, false},
		"not that of another key":      {b, "Service", 3, false},
		"not what was never recorded":  {a, "Ingress", 0, false},
	} {
		controllertest.Equal(t, name, c.want, g.IsSettled(c.key, c.what, c.token))
	}
	g.Forget(a)
	controllertest.Equal(t, "of an object that is gone", false, g.IsSettled(a, "Deployment", 2))
}
