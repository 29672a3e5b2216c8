package budget

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// holder is an object in a cache.
type holder struct{ name string }

// fill charges as many objects as fit, and returns them.
func fill(b *Budget, namespace string, size int) (held []*holder) {
	for {
		h := &holder{fmt.Sprint(len(held))}
		if !Charge(b, h, namespace, types.UID(h.name), size) {
			return held
		}
		held = append(held, h)
	}
}

func TestBudgetIsSeparateForEachNamespace(t *testing.T) {
	b := &Budget{}
	held := fill(b, "a", Small)
	if want := Namespace / Small; len(held) != want {
		t.Errorf("%d objects fit, want %d", len(held), want)
	}
	if other := fill(b, "b", Small); len(other) != len(held) {
		t.Errorf("%d objects of another namespace fit, want %d", len(other), len(held))
	}
	runtime.KeepAlive(held)
}

func TestChargeReplacesPreviousVersion(t *testing.T) {
	b := &Budget{}
	held := fill(b, "a", Namespace)
	for range 5 {
		next := &holder{"next"}
		if !Charge(b, next, "a", types.UID(held[0].name), Namespace) {
			t.Fatal("another version does not fit")
		}
		held[0] = &holder{held[0].name}
	}
	runtime.KeepAlive(held)
}

func TestBudgetReleasesSizeOfCollectedObjects(t *testing.T) {
	b := &Budget{}
	held := fill(b, "a", Namespace/4)
	if Charge(b, &holder{}, "a", "late", Small) || b.Fits("a", "late", Small) {
		t.Fatal("more than the budget fits")
	}
	if !b.Fits("a", types.UID(held[0].name), Namespace/4) || !b.Fits("b", "late", Namespace) ||
		(&Budget{}).Fits("a", "late", Namespace+1) {
		t.Error("what fits is told wrongly")
	}
	runtime.KeepAlive(held)
	for {
		b.mu.Lock()
		left := len(b.used)
		b.mu.Unlock()
		if left == 0 {
			return
		}
		runtime.GC()
	}
}
