// Package seal encrypts the digests and configurations of sensitive objects in a status, so that no reader
// can guess a value from them.
//
// The keys are in a Secret of the operator's namespace, or made for the process where Vidra may not read it.
// See [Store].
package seal
