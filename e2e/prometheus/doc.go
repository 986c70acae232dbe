// Command prometheus checks alerts and dashboards with the rules and the query engine of Prometheus, for
// tests:
//
//	prometheus rules TEST...    run unit tests of rules, in the format of promtool
//	prometheus query            run queries on scrapes; see query.go
//
// It is a Go module of its own, so that the modules of Vidra do not depend on those of Prometheus.
package main
