// Package kstatus tests the results of the library kstatus for the status of Windlass' kinds. Tools such as Flux and
// Helm 4 use this library. The package is in a module of its own, because the library depends on controller-runtime.
package kstatus
