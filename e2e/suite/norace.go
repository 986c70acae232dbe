//go:build !race

package suite

// Race reports whether the tests are built with the race detector, as the operators that
// they start are then, too.
const Race = false
