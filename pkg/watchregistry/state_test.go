package watchregistry

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNext(t *testing.T) {
	cases := map[string]struct {
		reason    string
		from      State
		hasSynced bool
		what      event
		want      State
	}{
		"Starts":                 {"A served resource is watched.", Pending, false, started, Starting},
		"Syncs":                  {"The initial list has been handled.", Starting, false, synced, Synced},
		"SyncsLate":              {"A watch that failed at first can still sync.", Degraded, false, synced, Synced},
		"SyncOfAStoppedInformer": {"What ended before it synced does not become Synced.", Pending, false, synced, Pending},
		"AnsweredWhileStarting":  {"An answer is not a sync.", Starting, false, answered, Starting},
		"AnsweredWhileSynced":    {"An answer is what is expected.", Synced, true, answered, Synced},
		"BackBeforeSync":         {"A watch that never synced starts over.", Degraded, false, answered, Starting},
		"Back":                   {"A watch that had synced resumes where it was.", Degraded, true, answered, Synced},
		"FailsWhileStarting":     {"403 at the first LIST.", Starting, false, failed, Degraded},
		"FailsWhileSynced":       {"403 after a role was taken away.", Synced, true, failed, Degraded},
		"FailsWhilePending":      {"Nothing runs that could fail.", Pending, false, failed, Pending},
		"Gone":                   {"The CRD was deleted.", Synced, true, notServed, Pending},
		"NeverServed":            {"The CRD was never there.", Starting, false, notServed, Pending},
		"Released":               {"Nobody needs it.", Synced, true, released, Stopped},
		"StoppedIsFinal":         {"What comes late does not revive a watch.", Stopped, true, answered, Stopped},
		"StoppedDoesNotStart":    {"A new owner gets a new watch.", Stopped, false, started, Stopped},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, next(tc.from, tc.hasSynced, tc.what), tc.reason)
		})
	}
}

func TestClassify(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	cases := map[string]struct {
		reason string
		err    error
		what   event
		why    Reason
		counts bool
	}{
		"Success":      {"It works.", nil, answered, "", true},
		"NotFound":     {"The resource is not served.", apierrors.NewNotFound(widgets, ""), notServed, ReasonNotFound, true},
		"Forbidden":    {"RBAC says no.", apierrors.NewForbidden(widgets, "", nil), failed, ReasonForbidden, true},
		"Unauthorized": {"The credentials are no longer good.", apierrors.NewUnauthorized("no"), failed, ReasonForbidden, true},
		"Refused":      {"The API server is down.", errors.New("connection refused"), failed, ReasonUnavailable, true},
		"Broken":       {"A conversion webhook fails.", apierrors.NewInternalError(errors.New("webhook")), failed, ReasonUnavailable, true},
		"Expired":      {"410 is answered with a relist.", apierrors.NewResourceExpired("old"), 0, "", false},
		"Throttled":    {"429 is answered with patience.", apierrors.NewTooManyRequests("slow down", 1), 0, "", false},
		"Cancelled":    {"We stopped the watch.", fmt.Errorf("list: %w", context.Canceled), 0, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			what, why, counts := classify(tc.err)
			require.Equal(t, tc.counts, counts, tc.reason)
			require.Equal(t, tc.what, what, tc.reason)
			require.Equal(t, tc.why, why, tc.reason)
		})
	}
}

func TestGroupOf(t *testing.T) {
	require.Equal(t, "example.com", groupOf("widgets.example.com"), "a CustomResourceDefinition")
	require.Equal(t, "metrics.k8s.io", groupOf("v1beta1.metrics.k8s.io"), "an APIService")
	require.Empty(t, groupOf("v1."), "the APIService of the core group")
}
