// Package sources tests manifests that come from the artifacts of Flux, on a real API server.
package sources
