// Package crash kills the operator again and again, at random moments of what it does,
// while VidraResources are created, changed and deleted and users edit what they
// manage. A model of what should exist is compared with the cluster: nothing may be
// lost, left behind, or deleted that has another owner.
//
// Run it with `go test ./e2e/crash/`. VIDRA_LONG=1 has the operator killed 200 times,
// VIDRA_SEED repeats the choices of another run, and VIDRA_E2E_DIR=<folder> keeps the
// logs, the audit log and the data of the run in that folder.
package crash
