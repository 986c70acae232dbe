// Package object has what packages below pkg/reconcile need of an object: its identity, the mark that
// shows its owner, and what an error of the API server about it means for a user.
//
// The text of an error is parsed only where the API server gives no structured reason. Each such text is named
// with its source.
package object
