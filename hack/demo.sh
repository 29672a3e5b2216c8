#!/usr/bin/env bash
# Shows Windlass at work on a local Kubernetes, with the controller out of cluster: three Ats, an App that waits
# for its Database, and a Platform whose components start in order. It prints the phases as they change.
# The cluster and the controller keep running afterwards.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly state=.cluster
export KUBECONFIG="${PWD}/${state}/kubeconfig"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# free_port PORT prints the first free TCP port of 127.0.0.1 from PORT on.
free_port() {
  local port
  for ((port = $1; port < $1 + 100; port++)); do
    if ! (exec 3<>"/dev/tcp/127.0.0.1/${port}") 2>/dev/null; then
      echo "${port}"
      return
    fi
  done
  echo "No port from $1 to $(($1 + 99)) is free." >&2
  return 1
}

# soon FILE prints a manifest with its schedule set to a few seconds from now.
soon() { sed -E "s|^( *schedule:).*|\1 \"$(date -u -d '+8 seconds' +%FT%TZ)\"|" "$1"; }

start_controller() {
  local pid_file="${state}/controller.pid" health webhook
  if [[ -s "${pid_file}" ]] && kill -0 "$(cat "${pid_file}")" 2>/dev/null; then
    kill "$(cat "${pid_file}")"
    while kill -0 "$(cat "${pid_file}")" 2>/dev/null; do sleep 0.1; done
  fi
  health=$(free_port 8080) webhook=$(free_port 9443)
  set -- bin/controller --kubeconfig "${state}/kubeconfig" --bind-address "127.0.0.1:${health}" --metrics-secure=false \
    --webhook-bind-address "127.0.0.1:${webhook}" --webhook-url "https://127.0.0.1:${webhook}/convert" \
    --webhook-namespace default --leader-election-namespace default
  echo "$*"
  setsid "$@" >"${state}/log/controller.log" 2>&1 </dev/null &
  echo $! >"${pid_file}"
  for ((i = 0; i < 300; i++)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/${health}"; printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3; head -1 <&3) 2>/dev/null | grep -q ' 200 '; then return; fi
    if ! kill -0 "$(cat "${pid_file}")" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "The controller did not become ready. The last lines of ${state}/log/controller.log:" >&2
  tail -n 5 "${state}/log/controller.log" >&2
  return 1
}

say "1. A local Kubernetes"
hack/cluster-up.sh

say "2. The CRDs"
bin/kubectl apply -f artifacts/crds
bin/kubectl wait --for=condition=Established -f artifacts/crds --timeout 30s >/dev/null

say "3. The controller, out of cluster"
start_controller

say "4. Three Ats: one succeeds (v1alpha1), one fails, one is suspended"
bin/kubectl delete platforms --all --ignore-not-found
bin/kubectl delete ats,apps.windlass.dev,databases.windlass.dev --all --ignore-not-found
bin/kubectl delete pvc --all --ignore-not-found # the volume of a Database of an earlier demo
for example in at-v1alpha1 at-fails at-suspended; do
  soon "artifacts/examples/${example}.yaml" | bin/kubectl apply -f -
done

say "5. Their phases as they change"
bin/kubectl get ats --watch &
watch=$!
trap 'kill "${watch}" 2>/dev/null || true' EXIT
bin/kubectl wait at/example-at --for=condition=Complete --timeout 60s >/dev/null
bin/kubectl wait at/fails --for=condition=Failed --timeout 60s >/dev/null
kill "${watch}"
wait "${watch}" 2>/dev/null || true

say "6. An App that waits for its Database"
bin/kubectl apply -f artifacts/examples/app-database.yaml
bin/kubectl wait app/storefront --for='jsonpath={.status.phase}=Pending' --timeout 60s >/dev/null
bin/kubectl get apps.windlass.dev --watch &
watch=$!
bin/kubectl wait app/storefront --for='jsonpath={.status.conditions[?(@.type=="Ready")].reason}=DependencyMissing' --timeout 60s >/dev/null
bin/kubectl apply -f artifacts/examples/database.yaml
bin/kubectl wait app/storefront --for=condition=Ready --timeout 60s >/dev/null
bin/kubectl wait database/shop --for=condition=Ready --timeout 60s >/dev/null
kill "${watch}"
wait "${watch}" 2>/dev/null || true
trap - EXIT

say "7. The Database, and the variables that the App gets from its Secret"
bin/kubectl get databases.windlass.dev
bin/kubectl set env deployment/storefront --list

say "8. A Platform, whose components start in the order of their dependencies"
bin/kubectl apply -f artifacts/examples/web-shop-platform.yaml
bin/kubectl get platforms --watch &
watch=$!
trap 'kill "${watch}" 2>/dev/null || true' EXIT
bin/kubectl wait platform/web-shop --for=condition=Ready --timeout 60s >/dev/null
kill "${watch}"
wait "${watch}" 2>/dev/null || true
trap - EXIT
say "When each component was created, and its status"
bin/kubectl get databases.windlass.dev,ats,apps.windlass.dev -n web-shop --no-headers --sort-by=.metadata.creationTimestamp \
  -o custom-columns='CREATED:.metadata.creationTimestamp,KIND:.kind,NAME:.metadata.name,READY:.status.conditions[?(@.type=="Ready")].message'

say "9. What the operator would do, and what it has done"
export PATH="${PWD}/bin:${PATH}" # so that kubectl finds its plugin
sed 's/image: .*/image: nginxinc\/nginx-unprivileged:1.30/' artifacts/examples/app-database.yaml | kubectl windlass plan -f - || (($? == 1)) # 1: differences
kubectl windlass tree platform/web-shop
kubectl windlass why at/fails

say "What to look at next"
cat <<TEXT
  export KUBECONFIG=${KUBECONFIG}
  bin/kubectl get ats,pods                  # the Ats and the Pods that they own
  bin/kubectl describe at fails             # its conditions and events
  bin/kubectl get ats.v1alpha1.cnat.programming-kubernetes.info -o yaml
  bin/kubectl scale app/storefront --replicas=3 && bin/kubectl get app storefront --watch
  bin/kubectl get statefulsets,services,secrets,pvc -l app.kubernetes.io/instance=shop
  bin/kubectl delete secret shop-credentials && bin/kubectl get secrets --watch   # a new password, without a restart
  bin/kubectl get platform web-shop -o yaml # its status lists the components
  bin/kubectl delete platform web-shop && bin/kubectl get windlass -n web-shop
  bin/kubectl patch at suspended --type merge -p '{"spec":{"suspend":false}}'
  bin/kubectl-windlass status -A
  less ${state}/log/controller.log
To stop and remove everything, run: make cluster-down
TEXT
