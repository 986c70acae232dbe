// Package cli tests the commands of vidra on a control plane of its own: what they print is compared
// with the files in testdata. To write those files anew:
//
//	VIDRA_GENERATE=1 go test ./e2e/cli
package cli
