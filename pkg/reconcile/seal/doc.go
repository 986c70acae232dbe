// Package seal hides what a status holds about objects with values that are never shown: the
// digests and configurations from which a reader could guess a value.
//
// The keys are in a Secret of the operator's namespace. See [Store].
package seal
