package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// operatorUser is who the operator is for the API server.
var operatorUser = suite.OperatorUser

// requireBackoff requires that attempts come less and less often: the time between two is
// doubled each time. Half of that is enough, for one may arrive late and the next not. The
// first ones are so close that a busy machine is late by more than that.
func requireBackoff(t *testing.T, attempts requests) {
	t.Helper()
	const first, from = 500 * time.Millisecond, 3
	require.Greater(t, len(attempts), from, "%s", attempts)
	for i := from; i < len(attempts); i++ {
		require.Greater(t, attempts[i].Time.Sub(attempts[i-1].Time), first/2<<(i-1), "%s", attempts)
	}
}
