// Package cluster is what Vidra knows of a cluster that it applies objects to:
// one dynamic and one metadata client, and which kinds the API server serves.
//
// Invariants: clients have no client-side rate limit, because the API server's
// priority and fairness is the one that knows the load; discovery is asked for
// one group and version at a time, so the failure of one group leaves the
// others alone, and what it said is kept until somebody invalidates the group.
//
// The package applies nothing and watches nothing.
package cluster
