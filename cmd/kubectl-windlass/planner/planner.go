// Package planner plans what the operator would do in a cluster: it runs the operator's own controllers on the clients
// of package plan.
package planner

import (
	"context"
	"fmt"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/plan"
)

// Planner plans what the operator would do. Its methods must not be called concurrently.
type Planner struct {
	*plan.Run
	Server *plan.Server
	// Dynamic is a client of the cluster after the planned writes. Its writes are part of the plan.
	Dynamic dynamic.Interface
}

// New returns a Planner for the cluster of config, with full caches. o has the configuration of the operator, and the
// namespace to which the plan is limited. New returns the first error of a request.
func New(ctx context.Context, config *rest.Config, o operator.Options) (*Planner, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.ContentType, config.AcceptContentTypes = -1, "application/json", "application/json"
	server, err := plan.NewServer(config, gatewayv1.GroupName)
	if err != nil {
		return nil, err
	}
	if !o.ExternalDatabases.Offline {
		stored, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("creating a client: %w", err)
		}
		o.StoredSecrets = stored.CoreV1()
	}
	config.Wrap(server.Wrap)
	clients, err := operator.NewClients(config, nil)
	if err != nil {
		return nil, err
	}
	p := &Planner{Server: server}
	if p.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if o.ExternalDatabases.APIServers, err = operator.APIServers(ctx, config, os.Getenv); err != nil {
		return nil, err
	}
	o.ExternalDatabases.Own = operator.OwnAddresses(ctx)
	clock := &plan.Clock{}
	o.Clock, o.ExternalDatabases.Plan = clock, server.Execute
	caches := operator.NewCaches(clients, operator.CacheOptions{Namespace: o.Namespace})
	controllers, err := operator.Kinds(ctx, caches, controller.DiscardEvents{}, o)
	if err != nil {
		return nil, err
	}
	// The controller of Platforms comes first, so that the plan reconciles a Platform before its components.
	slices.Reverse(controllers.All)
	p.Run = plan.NewRun(server, clock, controllers.All...)
	return p, p.Start(ctx, caches.Start)
}

// IsLastRejection reports whether err is the error of the last planned write. The plan shows such an error.
func (p *Planner) IsLastRejection(err error) bool {
	writes := p.Server.Writes()
	if len(writes) == 0 {
		return false
	}
	rejection := writes[len(writes)-1].Err
	return rejection != nil && apierrors.ReasonForError(rejection) == apierrors.ReasonForError(err) &&
		rejection.Error() == err.Error()
}
