// Package deployed holds the tests of what only an operator in a Pod shows: its configuration and
// rights, probes, leader election between Pods, and what happens when a Pod, a node or the API
// server ends. They run where the operator is deployed, see package e2e, and are skipped otherwise.
//
// No test is parallel: each of them ends what the others use.
package deployed
