// Package planner plans what the operator would do in a cluster: it runs the operator's own controllers on the clients
// of package plan.
package planner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/plan"
)

// Planner plans what the operator would do. Its methods must not be called concurrently.
type Planner struct {
	// Dynamic is a client of the cluster after the planned writes. Its writes are part of the plan.
	Dynamic dynamic.Interface

	server *plan.Server
	run    *plan.Run

	mu         sync.Mutex
	statements []Statement
}

// Statement is SQL that the operator would execute.
type Statement struct {
	// SQL is one statement, or several in one transaction. It has no password.
	SQL string
	// By is the object for which the operator would execute it, for example ExternalDatabase shop/orders.
	By string
	// After is the number of planned writes before the statement.
	After int
}

// New returns a Planner for the cluster of config, with full caches. o has the configuration of the operator, and the
// namespace to which the plan is limited. New returns the first error of a request.
func New(ctx context.Context, config *rest.Config, o operator.Options) (*Planner, error) {
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL of the API server: %w", err)
	}
	p := &Planner{server: plan.NewServer(to.Path)}
	config = rest.CopyConfig(config)
	config.QPS, config.ContentType, config.AcceptContentTypes = -1, "application/json", "application/json"
	if !o.ExternalDatabases.Offline {
		stored, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("creating a client: %w", err)
		}
		o.StoredSecrets = stored.CoreV1()
	}
	config.Wrap(p.server.Wrap)
	clients, err := operator.NewClients(config, nil)
	if err != nil {
		return nil, err
	}
	if p.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if o.ExternalDatabases.APIServers, err = operator.APIServers(ctx, config, os.Getenv); err != nil {
		return nil, err
	}
	clock := &plan.Clock{}
	o.Clock, o.ExternalDatabases.Plan = clock, p.note
	caches := operator.NewCaches(clients, operator.CacheOptions{Namespace: o.Namespace})
	controllers, err := operator.Kinds(ctx, caches, controller.DiscardEvents{}, o)
	if err != nil {
		return nil, err
	}
	// Platforms come first: their components are planned after them.
	slices.Reverse(controllers.All)
	p.run = plan.NewRun(p.server, clock, controllers.All...)
	if err := p.run.Start(ctx, caches.Start); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Planner) note(sql string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statements = append(p.statements, Statement{sql, p.server.Writer(), len(p.server.Writes())})
}

// Reconcile makes Settle reconcile an object, even if the plan has not changed it.
func (p *Planner) Reconcile(kind schema.GroupKind, key controller.Key) { p.run.Add(kind, key) }

// Settle reconciles objects until the queues are empty: see plan.Run.
func (p *Planner) Settle(ctx context.Context) error { return p.run.Settle(ctx) }

// Reconciled returns the objects that were reconciled, in the order of their first reconcile.
func (p *Planner) Reconciled() []plan.Object { return p.run.Reconciled() }

// Failed returns the objects that cannot be planned: see plan.Run.
func (p *Planner) Failed() []plan.Failure { return p.run.Failed() }

// Object returns a reconciled object after the planned writes. found is false if it does not exist.
func (p *Planner) Object(of plan.Object) (obj controller.Object, found bool) { return p.run.Object(of) }

// IsLastRefusal reports whether err is the error of the last planned write, so that the plan shows it.
func (p *Planner) IsLastRefusal(err error) bool {
	writes := p.server.Writes()
	if len(writes) == 0 {
		return false
	}
	refused := writes[len(writes)-1].Err
	return refused != nil && apierrors.ReasonForError(refused) == apierrors.ReasonForError(err) &&
		refused.Error() == err.Error()
}

// Writes returns the planned writes in order.
func (p *Planner) Writes() []plan.Write { return p.server.Writes() }

// Statements returns the planned SQL in order.
func (p *Planner) Statements() []Statement {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.statements)
}

// Denied returns the rights that the user lacks for the checks of the API server: see plan.Server.
func (p *Planner) Denied() []string { return p.server.Denied() }
