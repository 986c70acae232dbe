//go:build tools

// Package helm pins the helm that the tests of the chart run, and the commands of the docs. It is a
// module of its own, so that no version of the operator's module depends on those of helm. Package
// e2e/testenv builds it.
package helm

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
