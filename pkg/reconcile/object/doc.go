// Package object has what packages below pkg/reconcile need of an object: its identity, the mark that
// shows its owner, and what an error of the API server about it means for a user.
//
// An error is read only where the API server has no structured reason; the texts are named with their source.
package object
