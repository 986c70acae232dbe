// Package e2e holds the end-to-end tests: one file for each promise that Vidra
// makes, on a real API server. One control plane serves all of them; each test
// has namespaces and names of its own.
//
// Run them with `make e2e`. VIDRA_E2E_DIR=<folder> keeps the logs, the audit
// log and the data of the run in that folder.
package e2e
