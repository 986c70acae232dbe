// Package object has the parts of an object that packages below pkg/reconcile share: its identity, the mark that
// shows its owner, and the meaning of an error of the API server for a user.
//
// The text of an error is parsed only where the answer of the API server lacks a structured reason. Each such text is named
// with its source.
package object
