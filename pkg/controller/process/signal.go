package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// Signaled returns a context that ends with the first SIGTERM or SIGINT. The second signal ends the process at once,
// with exit code 1.
func Signaled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}

// Identity returns a unique name for this process. It begins with the name of the host.
func Identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + string(uuid.NewUUID())
}
