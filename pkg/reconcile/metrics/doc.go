// Package metrics counts what the reconciler does.
package metrics
