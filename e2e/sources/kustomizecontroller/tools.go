//go:build tools

// Package kustomizecontroller pins the kustomize-controller of Flux that a test runs, built from the Go module proxy.
package kustomizecontroller

import _ "github.com/fluxcd/kustomize-controller"
