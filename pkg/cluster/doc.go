// Package cluster provides the clusters of objects: a dynamic and a metadata client, discovery of the served kinds, and the
// health of remote clusters. [New] returns the local cluster, [Destinations] the remote ones.
//
// Invariants: clients have no client-side rate limit, because the priority and fairness of the
// API server knows the load; discovery requests are for one group and version, so the failure
// of one group leaves others unaffected; discovery is cached until the group is invalidated or
// a missing kind is needed.
//
// A remote Cluster is permanent like the local one. Its route changes: the kubeconfig of the
// Secret that matches its URL. So a watch continues when the Secret is rotated, and without a
// kubeconfig a request fails at once with the cause. Errors quote only names of a kubeconfig. A
// kubeconfig never makes Vidra run a program or read a file. The health of a remote API server
// is taken from the requests of the callers; probes are sent only between a failure and the
// next success.
//
// The package applies no objects and watches only those Secrets.
package cluster
