package suite

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Long reports whether tests run at their full size, as `make test-long` has them: VIDRA_LONG
// is set.
func Long() bool { return os.Getenv("VIDRA_LONG") != "" }

// Size is how often a test does something: short by default, long if Long.
func Size(short, long int) int {
	if Long() {
		return long
	}
	return short
}

// Seed is the seed of a test that acts at random. It is logged, and VIDRA_SEED repeats it. By
// default a test has the same one in each run, so that it fails only for what has changed; at
// full size it has another one in each.
func Seed(t *testing.T) uint64 {
	t.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name())) // never fails
	seed := name.Sum64()
	if Long() {
		seed = rand.Uint64()
	}
	if given := os.Getenv("VIDRA_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, "VIDRA_SEED")
	}
	t.Logf("VIDRA_SEED=%d repeats this", seed)
	return seed
}

// Duration is a time limit of tests, which an environment variable raises on a loaded machine.
func Duration(variable string, limit time.Duration) time.Duration {
	given := os.Getenv(variable)
	if given == "" {
		return limit
	}
	d, err := time.ParseDuration(given)
	if err != nil {
		panic(fmt.Errorf("%s: %w", variable, err))
	}
	return d
}
