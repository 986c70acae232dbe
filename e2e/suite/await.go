package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// Patience bounds the wait for anything. It is for slow machines; a test of something
	// that has to be fast has a bound of its own. It is far below the default resync
	// interval, so what happens within it was caused by an event.
	Patience = 40 * time.Second
	// Poll is how often a condition is checked at first, and pollMost how rarely later:
	// each check is a request that competes with what the test waits for.
	Poll     = 10 * time.Millisecond
	pollMost = 50 * time.Millisecond
)

// Await waits until condition holds, for Patience at most.
func Await(t *testing.T, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	AwaitFor(t, Patience, condition, msgAndArgs...)
}

// AwaitFor waits until condition holds, for a time that the test knows better than Await.
func AwaitFor(t *testing.T, most time.Duration, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	pause := time.Duration(0)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		time.Sleep(pause)
		pause = min(max(Poll, pause*3/2), pollMost)
		condition(c)
	}, most, time.Millisecond, msgAndArgs...)
}

// Unique returns a name that no other test of the process has, and that begins with the
// name of the test.
func Unique(t *testing.T) string {
	t.Helper()
	return testenv.UniqueName(t.Name())
}
