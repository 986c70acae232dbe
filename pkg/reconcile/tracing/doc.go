// Package tracing makes OpenTelemetry spans of reconciles: the reconcile with its causes, each object that
// is applied, and each request about it. Without Use it does nothing and allocates nothing.
//
// A span has identities, actions and reasons. It never has values of fields, manifests, or messages of
// the API server, which may quote a value of a Secret.
package tracing
