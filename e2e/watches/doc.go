// Package watches holds the tests of the watch registry (pkg/watchregistry) on a
// real API server, with a faultproxy.Proxy in front of it where the server itself
// cannot be made to misbehave. The file failures.md in docs lists which of them
// shows what.
package watches
