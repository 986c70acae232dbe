// Package cluster is what Vidra knows of a cluster that it applies objects to:
// one dynamic and one metadata client, and which kinds the API server serves.
// New makes the local cluster, Destinations the remote ones.
//
// Invariants: clients have no client-side rate limit, because the API server's
// priority and fairness is the one that knows the load; discovery is asked for
// one group and version at a time, so the failure of one group leaves the
// others alone, and what it said is kept until somebody invalidates the group, or
// asks for a kind that was not there.
//
// A remote Cluster is as permanent as the local one. What changes is the route that
// its requests take: the kubeconfig of the Secret that matches its URL. So a watch
// goes on when the Secret is rotated, and a request fails at once, and says why,
// while there is none. No error has text of a kubeconfig in it but names. A kubeconfig
// has Vidra run no program and read no file. Whether a remote API server can be
// reached is seen from the requests of others; only from a failure to the next success
// is it asked.
//
// The package applies nothing and watches nothing but those Secrets.
package cluster
