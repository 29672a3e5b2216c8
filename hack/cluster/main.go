// Command kubernetes is a complete Kubernetes in one binary, to try and test Windlass on one machine. It contains etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, and kwok, which simulates a node. The first
// argument selects one of these programs. The command run runs a cluster in the foreground. The commands up and down
// start and stop a cluster in the background.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlerrors "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = `usage: kubernetes COMMAND [flags]
  run --dir DIR [FLAG...]   runs a cluster in the foreground; README.md lists the flags, and the commands that it reads
  up --dir DIR              starts a cluster in the background
  down --dir DIR            stops this cluster and removes DIR
  kubectl, etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "run", "up", "down":
		if err := own(os.Args[0], os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "kubernetes %s: %v\n", os.Args[0], err)
			os.Exit(1)
		}
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlerrors.CheckErr(err)
		}
	case "kwok":
		kwok()
	default:
		fmt.Fprintf(os.Stderr, "kubernetes: unknown component %q\n%s\n", os.Args[0], usage)
		os.Exit(2)
	}
}
