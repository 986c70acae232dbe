// Package tour shows a person what Vidra does, on a cluster where it runs: it
// applies the samples, edits their objects as people do, brings a new kind along,
// and prints what Vidra makes of it, how fast, and what it says about it.
//
// Nothing is told that did not happen: every step looks at the cluster, is
// bounded by a timeout, and ends the tour with an error if what should be there
// is not. How long an edit stood is measured by a watch (package stopwatch).
//
// The tour needs Vidra's CustomResourceDefinition and a running operator, and
// neither a checkout nor kubectl. It leaves the cluster as it found it, but for
// the Events, which the API server keeps for an hour: it takes nothing that
// exists already, and [Tour.Leave] removes what it made, also after an error.
package tour
