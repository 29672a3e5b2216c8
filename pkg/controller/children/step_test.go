package children_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// crew is a kind whose children only record that they were applied.
type crew struct {
	// fails has the errors of children by name. unwanted has the names of the children that are not desired.
	fails    map[string]error
	unwanted []string
	applied  []string
}

// member returns a child. Its declaration has its name, and the names of the children that it needs after a colon.
func (c *crew) member(declaration string) children.Child[voyage] {
	name, needs, _ := strings.Cut(declaration, ":")
	return children.Step[voyage]{
		Name: name, Needs: strings.Fields(needs),
		Deletes: func(voyage) bool { return slices.Contains(c.unwanted, name) },
		Apply: func(context.Context, voyage) error {
			c.applied = append(c.applied, name)
			return c.fails[name]
		},
	}
}

// reconcile applies the declared children.
func (c *crew) reconcile(ctx context.Context, declarations ...string) error {
	kind := ships()
	for _, d := range declarations {
		kind.Children = append(kind.Children, c.member(d))
	}
	declared, err := kind.Declare()
	if err == nil {
		_, err = declared.Reconciler.Reconcile(ctx, owner().Object.(*ship))
	}
	return err
}

func TestChildrenWaitOnlyForChildrenThatTheyNeed(t *testing.T) {
	rejected, taken := errors.New("rejected"), controller.Stalled(errors.New("taken"), 0)
	for name, c := range map[string]struct {
		crew
		declared []string
		want     []string
		err      string
	}{
		"a rejected child delays no other": {
			crew{fails: map[string]error{"b": rejected}}, []string{"a", "b", "c"}, []string{"a", "b", "c"}, "rejected",
		},
		"a child waits for a need, and for the needs of its needs": {
			crew{fails: map[string]error{"a": rejected}}, []string{"a", "b:a", "c:b", "d"}, []string{"a", "d"}, "rejected",
		},
		"all errors are reported": {
			crew{fails: map[string]error{"a": rejected, "c": taken}}, []string{"a", "b", "c"}, []string{"a", "b", "c"},
			"rejected; taken",
		},
		"an undesired child is deleted after the children that need it": {
			crew{unwanted: []string{"a", "b"}}, []string{"a", "b:a", "c:b", "d"}, []string{"c", "d", "b", "a"}, "",
		},
		"an undesired child stays while a child that needs it fails": {
			crew{unwanted: []string{"a"}, fails: map[string]error{"b": rejected}}, []string{"a", "b:a"}, []string{"b"},
			"rejected",
		},
		"an undesired child is deleted although a child that it needs fails": {
			crew{unwanted: []string{"b"}, fails: map[string]error{"a": rejected}}, []string{
				"a", "b:a",
			}, []string{"a", "b"}, "rejected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.ErrorContains(t, c.err, c.reconcile(t.Context(), c.declared...))
			controllertest.Equal(t, "applied children", c.want, c.applied)
		})
	}
}

// TestRejectedTenthChildLeavesNineApplied rejects each of ten children that do not need each other.
func TestRejectedTenthChildLeavesNineApplied(t *testing.T) {
	all := strings.Fields("a b c d e f g h i j")
	for _, rejected := range all {
		c := crew{fails: map[string]error{rejected: apierrors.NewInvalid(schema.GroupKind{Kind: "Ingress"}, "web", nil)}}
		controllertest.ErrorContains(t, "is invalid", c.reconcile(t.Context(), all...))
		controllertest.Equal(t, "applied children", all, c.applied)
	}
}

func TestErrorThatConcernsAllChildrenStopsReconcile(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	terminating := apierrors.NewForbidden(services, "web", nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err   error
		stops bool
	}{
		"503":                                   {apierrors.NewServiceUnavailable("shutting down"), true},
		"429":                                   {apierrors.NewTooManyRequests("overloaded", 1), true},
		"504":                                   {apierrors.NewTimeoutError("no response", 1), true},
		"a timeout of etcd":                     {apierrors.NewServerTimeout(services, "create", 1), true},
		"no connection":                         {&url.Error{Op: "Post", URL: "https://10.0.0.1", Err: io.EOF}, true},
		"the end of the process":                {context.Canceled, true},
		"a deadline":                            {context.DeadlineExceeded, true},
		"an owner that does not exist any more": {controller.ErrDeletionNotObserved, true},
		"a namespace that is deleted":           {terminating, true},
		"a webhook that does not respond":       {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"a conflict":                            {apierrors.NewConflict(services, "web", nil), false},
		"a missing permission":                  {apierrors.NewForbidden(services, "web", nil), false},
		"a name of another owner's child":       {controller.Stalled(errors.New("taken"), 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			crew := crew{fails: map[string]error{"a": fmt.Errorf("creating: %w", c.err)}}
			err := crew.reconcile(t.Context(), "a", "b")
			controllertest.Equal(t, "whether the other child is applied", !c.stops, slices.Contains(crew.applied, "b"))
			controllertest.Equal(t, "whether the error is returned", true, errors.Is(err, c.err))
		})
	}
}

// TestOwnerThatIsGoneHidesOtherErrors checks that the reconcile is quiet.
func TestOwnerThatIsGoneHidesOtherErrors(t *testing.T) {
	c := crew{fails: map[string]error{"a": errors.New("rejected"), "b": controller.ErrDeletionNotObserved}}
	controllertest.Equal(t, "whether the error is quiet", true, controller.Quiet(c.reconcile(t.Context(), "a", "b", "c")))
}

func TestDeclareRejectsChildrenThatCannotBeOrdered(t *testing.T) {
	for want, declared := range map[string][]string{
		"two children have the name a":                        {"a", "b", "a"},
		"child a needs b, which is not declared before it":    {"a:b", "b"},
		"child b needs c, which is not declared before it":    {"a", "b:a c"},
		"child c needs c, which is not declared before it":    {"c:c"},
		`child "" lacks its name, Resource, Desired or Apply`: {""},
	} {
		c := crew{}
		controllertest.ErrorContains(t, "declaring kind Ship: "+want, c.reconcile(t.Context(), declared...))
		controllertest.Equal(t, "applied children", nil, c.applied)
	}
}
