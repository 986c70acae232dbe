//go:build tools

// Package controller pins the source-controller of Flux that tests run, built from the Go module proxy. Two modules are replaced: artifact by the
// version that the proxy serves, and go-digest as in the go.mod of the controller. `go mod tidy -e` keeps the files, as a module of
// its own tests is not served.
package controller

import _ "github.com/fluxcd/source-controller"
