package sync

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// requesting returns a Receiver at work, as idle returns it.
func requesting(t *testing.T, answers interceptor.Funcs) *Receiver {
	t.Helper()
	r := idle(t, answers)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _ = r.Start(ctx) }()
	return r
}

// idle returns a Receiver beside an API server with the InfrahubSyncs a and b, each of the branch with its name.
func idle(t *testing.T, answers interceptor.Funcs) *Receiver {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	of := func(name string) *v1alpha1.InfrahubSync {
		is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: name}}
		is.Spec.Source.TargetBranch = name
		return is
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(of("a"), of("b")).WithInterceptorFuncs(answers).Build()
	return (&Receiver{API: api, Client: api, Metrics: NewMetrics(), Log: logr.Discard()}).Complete()
}

// send delivers a webhook about a changed artifact, with further fields.
func send(t *testing.T, r *Receiver, id, fields string) {
	t.Helper()
	_, status := r.accept(id, []byte(`{"event":"infrahub.artifact.updated"`+fields+`}`))
	require.Less(t, status, 300)
}

// TestWebhookAtTheEnd: the endpoint of webhooks is open until the reconciles of the process have ended. Webhooks that were accepted before the end request
// their syncs, also one that waits for another attempt. A webhook after the last request for syncs is refused, so that its sender knows of the loss.
func TestWebhookAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]int{"Accepted": 0, "Failing": 3, "Unanswered": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var failing atomic.Bool
				failing.Store(attempts != 0)
				patched := map[string]int{}
				r := idle(t, interceptor.Funcs{
					Patch: func(ctx context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
						if attempts < 0 {
							<-ctx.Done()
							return ctx.Err()
						}
						if failing.Load() {
							return apierrors.NewInternalError(errors.New("failed calling webhook"))
						}
						patched[obj.GetName()]++
						return nil
					},
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Start(ctx) }()
				send(t, r, "1", `,"branch":"b"`)
				if attempts != 0 {
					time.Sleep(time.Duration(attempts) * requestGap)
					synctest.Wait()
				}
				failing.Store(false)
				begin := time.Now()
				cancel()
				require.NoError(t, <-ended)
				require.LessOrEqual(t, time.Since(begin), lastRequest)
				if attempts >= 0 {
					require.Equal(t, map[string]int{"b": 1}, patched)
				}
				_, status := r.accept("2", []byte(`{"event":"infrahub.artifact.updated"}`))
				require.Equal(t, http.StatusServiceUnavailable, status)
			})
		})
	}
}

// TestWebhookDuringAnOutage: a webhook was answered before its request for syncs, and its sender does not send it again. So the request outlives a short
// outage of the API server, with one request for each InfrahubSync, and another webhook waits for no attempt.
func TestWebhookDuringAnOutage(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(v1alpha1.SyncResource.GroupResource(), "b", errors.New("denied"))
	for name, tc := range map[string]struct {
		reason string
		// lists are the answers to the first lists, and patches those to the first patches of the InfrahubSync b.
		lists, patches []error
		// second is the time of a second webhook; 0 for none.
		second time.Duration
		// want are the patches of each InfrahubSync, within a time after the last webhook.
		want   map[string]int
		within time.Duration
	}{
		"NoOutage":  {reason: "it is requested once", want: map[string]int{"a": 1, "b": 1}, within: requestGap},
		"List":      {reason: "the API server was away", lists: []error{errors.New("away"), errors.New("away")}, want: map[string]int{"a": 1, "b": 1}, within: 3 * time.Second},
		"Patch":     {reason: "one was written", patches: []error{errors.New("away")}, want: map[string]int{"a": 1, "b": 2}, within: 3 * time.Second},
		"Forbidden": {reason: "an API server that starts has not read its roles", patches: []error{refused, refused}, want: map[string]int{"a": 1, "b": 3}, within: 3 * time.Second},
		"Refused":   {reason: "the attempts have an end", patches: slices.Repeat([]error{refused}, 99), want: map[string]int{"a": 1, "b": webhookBackoff.Steps}, within: time.Minute},
		"Second":    {reason: "it does not wait for the next attempt", lists: slices.Repeat([]error{errors.New("away")}, 5), second: 8 * time.Second, want: map[string]int{"a": 1, "b": 1}, within: requestGap},
		"Lasting":   {reason: "the interval is next", lists: slices.Repeat([]error{errors.New("away")}, 99), want: map[string]int{}, within: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				next := func(answers *[]error) (err error) {
					if len(*answers) > 0 {
						err, *answers = (*answers)[0], (*answers)[1:]
					}
					return err
				}
				var lists int
				patched := map[string]int{}
				r := requesting(t, interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
						lists++
						if err := next(&tc.lists); err != nil {
							return err
						}
						return c.List(ctx, list, o...)
					},
					Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
						patched[obj.GetName()]++
						if obj.GetName() == "b" {
							if err := next(&tc.patches); err != nil {
								return err
							}
						}
						return c.Patch(ctx, obj, p, o...)
					},
				})
				send(t, r, "1", "")
				if tc.second > 0 {
					time.Sleep(tc.second)
					send(t, r, "2", "")
				}
				time.Sleep(tc.within)
				synctest.Wait()
				require.Equal(t, tc.want, maps.Clone(patched), tc.reason)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, tc.want, maps.Clone(patched), "there is no further attempt")
				require.Less(t, lists, 10)
			})
		})
	}
}

// TestWebhookBesideAFailure: a request that fails for one InfrahubSync, as by an admission webhook of its tenant that does not answer, delays none of other
// branches, and is repeated until it succeeds.
func TestWebhookBesideAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var healthy atomic.Bool
		patched := map[string]int{}
		r := requesting(t, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
				if !healthy.Load() && obj.GetName() == "b" {
					return apierrors.NewInternalError(errors.New("failed calling webhook"))
				}
				patched[obj.GetName()]++
				return c.Patch(ctx, obj, p, o...)
			},
		})
		send(t, r, "0", `,"branch":"b"`)
		for i := range 10 {
			time.Sleep(2 * requestGap)
			send(t, r, strconv.Itoa(i+1), `,"branch":"a"`)
			time.Sleep(requestGap)
			synctest.Wait()
			require.Equal(t, map[string]int{"a": i + 1}, maps.Clone(patched))
		}
		healthy.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]int{"a": 10, "b": 1}, maps.Clone(patched))
	})
}
