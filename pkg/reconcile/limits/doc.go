// Package limits bounds the share that reconciles of large manifests, and of remote clusters, take from all others: workers,
// memory and CPU (ADR 21, ADR 22). It also has the time between two attempts after a failure.
package limits
