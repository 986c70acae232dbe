// Package namespaced tests config/namespaced on a real API server: an operator that has rights on
// objects in two namespaces alone, and runs with the flags of its Deployment.
package namespaced
