// Package kstatus tests how tools that use the library kstatus, such as Flux and Helm 4, understand the status of
// Windlass' kinds. It is a module of its own, because the module of that library depends on controller-runtime.
package kstatus
