// Package e2e holds the end-to-end tests: one file for each promise that Vidra
// makes, on a real API server. One control plane serves all of them; each test
// has namespaces and names of its own.
//
// Run them with `make e2e`. VIDRA_E2E_DIR=<folder> keeps the logs, the audit
// log and the data of the run in that folder.
//
// The tests run in two ways:
//
//   - With a control plane of their own and the operator as a process of this
//     machine. This is the default.
//   - Against an operator that is deployed in a cluster: VIDRA_E2E_KUBECONFIG is the path of
//     the kubeconfig of an administrator. `make e2e-kind` and `make e2e-cluster` set it, and
//     package suite has the other variables. An operator that a test starts with other flags
//     is a further Deployment there.
//
// A test that injects faults between the operator and the API server runs in the first way only,
// and calls needsOwnControlPlane. In the second way it is skipped, and listed at the end.
package e2e
