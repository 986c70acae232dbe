package cluster

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestAnswerThatIsCut has a connection end in the middle of an answer: what was asked for
// failed for that, and is told as nothing else.
func TestAnswerThatIsCut(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, path string
		// gone says that nobody wants the answer any more.
		gone, doubtful bool
	}{
		"a request":           {reason: "the API server may have ended", path: "/api", doubtful: true},
		"a WATCH":             {reason: "its answer ends at any time", path: "/api?watch=true"},
		"a cancelled request": {reason: "it was cut here", path: "/api", gone: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					answer := answered(http.StatusOK)
					if request.URL.Path == "/api" {
						answer.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
					}
					return answer, nil
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server+tc.path, http.NoBody)
				require.NoError(t, err)
				response, err := r.RoundTrip(request)
				require.NoError(t, err)
				if tc.gone {
					cancel()
				}
				_, err = io.ReadAll(response.Body)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				require.Equal(t, tc.doubtful, r.health.unconfirmed(), tc.reason)
				require.NoError(t, response.Body.Close())
				synctest.Wait()
				require.False(t, r.unreachable() != nil || changes.Load() > 0, "it answers others")
			})
		})
	}
}
