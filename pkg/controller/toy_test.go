package controller_test

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/controller"
)

// Toy is a minimal kind: its desired state is a colour.
type Toy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ToySpec   `json:"spec"`
	Status ToyStatus `json:"status,omitempty"`
}

type ToySpec struct {
	Colour string `json:"colour,omitempty"`
}

type ToyStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	Colour             string             `json:"colour,omitempty"`
}

var toyKind = schema.GroupVersionKind{Group: "toys.example.com", Version: "v1", Kind: "Toy"}

func (t *Toy) StatusConditions() *[]metav1.Condition { return &t.Status.Conditions }

func (t *Toy) StatusObservedGeneration() *int64 { return &t.Status.ObservedGeneration }

func (t *Toy) DeepCopyObject() runtime.Object { return t.copy() }

func (t *Toy) copy() *Toy {
	c := *t
	t.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(t.Status.Conditions)
	return &c
}

// newToy returns a Toy as a user creates it.
func newToy(name string) *Toy {
	return &Toy{
		TypeMeta:   metav1.TypeMeta{APIVersion: toyKind.GroupVersion().String(), Kind: toyKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       ToySpec{Colour: "red"},
	}
}

// keyOf returns the key of the Toy that newToy(name) returns.
func keyOf(name string) controller.Key { return controller.Key{Namespace: "default", Name: name} }

// painter is the Reconciler of Toy. A test may replace its function.
type painter struct {
	reconcile func(ctx context.Context, toy *Toy) (controller.Result, error)
	calls     int
}

func (p *painter) Reconcile(ctx context.Context, toy *Toy) (controller.Result, error) {
	p.calls++
	if p.reconcile == nil {
		return paint(ctx, toy)
	}
	return p.reconcile(ctx, toy)
}

// paint is a Reconcile that succeeds.
func paint(_ context.Context, toy *Toy) (controller.Result, error) {
	toy.Status.Colour = toy.Spec.Colour
	controller.Summary{
		State: controller.StateReady, Note: controller.Note{Reason: "Painted", Message: "It is " + toy.Spec.Colour + "."},
	}.SetOn(toy)
	return controller.Result{}, nil
}

// fails returns a Reconcile that returns err.
func fails(err error) func(context.Context, *Toy) (controller.Result, error) {
	return func(context.Context, *Toy) (controller.Result, error) { return controller.Result{}, err }
}

// panics panics, as a Reconcile with a bug does.
func panics() (controller.Result, error) {
	var colours []string
	return controller.Result{}, errors.New(colours[3])
}

// cleaner is a painter of a kind with a finalizer.
type cleaner struct {
	painter
	finalize func(ctx context.Context, toy *Toy) (controller.Result, error)
	cleaned  int
}

func (c *cleaner) Finalize(ctx context.Context, toy *Toy) (controller.Result, error) {
	c.cleaned++
	if c.finalize == nil {
		return controller.Result{}, nil
	}
	return c.finalize(ctx, toy)
}
