package cluster

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestPageTooLarge has an API server answer with more than a page may have. That is no fault of it: it stays reachable. An
// answer that is no page is bounded by the limits of the cluster alone.
func TestPageTooLarge(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"Text": `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`, "Objects": "{},"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					answer := answered(http.StatusOK)
					answer.Body = &endless{text: text, ctx: request.Context()}
					return answer, nil
				})
				r.bounds.limits.finish, r.bounds.limits.hold, r.bounds.limits.maxHold, r.bounds.limits.held = defaultLimits.finish, defaultLimits.hold, defaultLimits.maxHold, defaultLimits.held
				ask := func(paged bool) (int64, error) {
					ctx := t.Context()
					if paged {
						ctx = InPages(ctx)
					}
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server+"/api?limit=1000", http.NoBody)
					require.NoError(t, err)
					response, err := withRetryHandling(r).RoundTrip(request)
					require.NoError(t, err)
					n, err := io.Copy(io.Discard, response.Body)
					require.NoError(t, response.Body.Close())
					return n, err
				}
				n, err := ask(true)
				require.ErrorIs(t, err, ErrPageTooLarge)
				require.LessOrEqual(t, n, int64(maxPageBytes))
				require.NoError(t, r.unreachable())
				require.Zero(t, changes.Load())
				require.Zero(t, r.bounds.answers.held.Load(), "what was read is not held any more")
				_, err = ask(false)
				require.ErrorContains(t, err, errTooLarge.Error())
			})
		})
	}
}
