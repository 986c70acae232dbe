package main

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// roundTrip is a transport that counts its requests.
type roundTrip struct{ sent int }

func (r *roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	r.sent++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestFenceClocks: the longer of the times of both clocks counts.
func TestFenceClocks(t *testing.T) {
	t.Parallel()
	began := time.Now()
	cases := map[string]struct {
		reason string
		now    time.Time
		want   time.Duration
	}{
		"Wall": {"The monotonic clock stood still while the machine was suspended.", began.Round(0).Add(time.Minute), time.Minute},
		"Both": {"Both went on.", began.Add(time.Second), time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fence{}
			require.Zero(t, f.sinceRenewal(tc.now), "it has not led")
			f.renew(began)
			require.Equal(t, tc.want, f.sinceRenewal(tc.now), tc.reason)
		})
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	const page = "/api/v1/namespaces/web/configmaps/page"
	cases := map[string]struct {
		reason       string
		method, path string
		// since is the time since the last renewal; negative if this replica has not led.
		since time.Duration
		want  bool
	}{
		"NeverLed":      {"Without leader election there is no Lease.", http.MethodPatch, page, -1, true},
		"Leads":         {"The Lease is renewed every 2 seconds.", http.MethodPatch, page, 2 * time.Second, true},
		"Paused":        {"Another replica may lead.", http.MethodPatch, page, 11 * time.Second, false},
		"Deletion":      {"It is a write, too.", http.MethodDelete, page, 11 * time.Second, false},
		"Read":          {"It changes nothing.", http.MethodGet, page, 11 * time.Second, true},
		"Lease":         {"It may be one of a manifest.", http.MethodPatch, "/apis/coordination.k8s.io/v1/namespaces/web/leases/x", 11 * time.Second, false},
		"Event":         {"It may be one of a manifest.", http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/web/events/x", 11 * time.Second, false},
		"Review":        {"It only asks.", http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", time.Hour, true},
		"NamedLikeThem": {"The name of an object is not its resource.", http.MethodPatch, "/api/v1/namespaces/leases/configmaps/events", time.Hour, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lead, next := newReplica(), &roundTrip{}
				if tc.since >= 0 {
					lead.fence.renew(time.Now())
					time.Sleep(tc.since)
				}
				request, err := http.NewRequestWithContext(t.Context(), tc.method, "https://server"+tc.path, http.NoBody)
				require.NoError(t, err)
				response, err := lead.wrap(next).RoundTrip(request)
				if !tc.want {
					require.ErrorContains(t, err, "another replica may lead", tc.reason)
					require.Zero(t, next.sent, tc.reason)
					return
				}
				require.NoError(t, err, tc.reason)
				require.NoError(t, response.Body.Close())
				require.Equal(t, 1, next.sent, tc.reason)
			})
		})
	}
}
