// Package neighbours tests how Windlass gets along with tools and policies that write to the same objects: tools that
// apply and prune what is in Git, policies that change or reject objects, autoscalers, drains and backups. It runs the
// code of these tools. It is a module of its own, because some of the tools depend on controller-runtime.
package neighbours
