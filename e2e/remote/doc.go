// Package remote tests VidraResources whose objects are in another cluster. It starts
// two control planes: the local one, which has the VidraResources and the Secrets with
// kubeconfigs, and the remote one, which has the objects. The remote API server has a
// URL for each test, so that each has a destination to itself: behind a fault proxy,
// which needs no credentials, or behind a forwarder, which leaves them to the server.
package remote
