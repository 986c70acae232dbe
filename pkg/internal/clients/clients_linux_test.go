package clients

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimiter(t *testing.T) {
	l := &Limiter{PerSecond: 1, Burst: 10, AtATime: 4}
	enter := func(address string) (leave func()) {
		leave, _ = l.Enter(address)
		return leave
	}
	first, second := enter("10.0.0.1:1"), enter("10.0.0.1:2")
	require.NotNil(t, first)
	require.NotNil(t, second)
	require.Nil(t, enter("10.0.0.1:3"), "a client takes as many places as it leaves")
	other := enter("[fd00::1]:1")
	require.NotNil(t, other)
	require.Nil(t, enter("[fd00::1]:2"))
	first()
	second()
	for range 7 {
		enter("10.0.0.1:4")()
	}
	require.Nil(t, enter("10.0.0.1:4"), "its rate is bounded")
	require.NotNil(t, enter("10.0.0.2:1"))
}
