package watchregistry

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNext(t *testing.T) {
	var (
		pending   = phase{state: Pending, reason: ReasonNotFound}
		starting  = phase{state: Starting}
		syncedNow = phase{state: Synced, hasSynced: true}
		forbidden = phase{state: Degraded, reason: ReasonForbidden}
		wasSynced = phase{state: Degraded, reason: ReasonUnavailable, hasSynced: true}
		draining  = phase{state: Synced, hasSynced: true, unowned: true}
		stopped   = phase{state: Stopped, unowned: true}
	)
	cases := map[string]struct {
		reason string
		from   phase
		what   event
		why    Reason
		want   phase
	}{
		"Starts":                  {"A served resource is watched.", pending, started, "", starting},
		"StartsAnew":              {"A new informer has seen nothing yet.", syncedNow, started, "", starting},
		"Syncs":                   {"The initial list has been handled.", starting, synced, "", syncedNow},
		"SyncsWhileDegraded":      {"The list came, but the WATCH after it fails.", forbidden, synced, "", phase{state: Degraded, reason: ReasonForbidden, hasSynced: true}},
		"SyncOfAStoppedInformer":  {"What ended before it synced does not become Synced.", pending, synced, "", pending},
		"AnsweredWhileStarting":   {"An answer is not a sync.", starting, answered, "", starting},
		"AnsweredWhileSynced":     {"An answer is what is expected.", syncedNow, answered, "", syncedNow},
		"AnsweredWhilePending":    {"What comes late does not start a watch.", pending, answered, "", pending},
		"BackBeforeSync":          {"A watch that never synced starts over.", forbidden, answered, "", starting},
		"Back":                    {"A watch that had synced resumes where it was.", wasSynced, answered, "", syncedNow},
		"FailsWhileStarting":      {"403 at the first LIST.", starting, failed, ReasonForbidden, forbidden},
		"FailsWhileSynced":        {"The API server went away.", syncedNow, failed, ReasonUnavailable, wasSynced},
		"FailsForAnotherReason":   {"It came back and refuses.", wasSynced, failed, ReasonForbidden, phase{state: Degraded, reason: ReasonForbidden, hasSynced: true}},
		"FailsWhilePending":       {"Nothing runs that could fail.", pending, failed, ReasonForbidden, pending},
		"Gone":                    {"The CRD was deleted.", syncedNow, notServed, ReasonNotFound, pending},
		"NeverServed":             {"The CRD was never there.", starting, notServed, ReasonNotFound, pending},
		"GoneWhileForbidden":      {"The CRD of a forbidden kind was deleted.", forbidden, notServed, ReasonNotFound, pending},
		"Unowned":                 {"The last owner left: it lingers.", syncedNow, unowned, "", draining},
		"NeededAgain":             {"An owner comes back while it lingers.", draining, needed, "", syncedNow},
		"FailsWhileUnowned":       {"It lives on while it lingers.", draining, failed, ReasonUnavailable, phase{state: Degraded, reason: ReasonUnavailable, hasSynced: true, unowned: true}},
		"Released":                {"No owner came back.", draining, released, "", stopped},
		"StoppedIsFinal":          {"What comes late does not revive a watch.", stopped, answered, "", stopped},
		"StoppedDoesNotStart":     {"A new owner gets a new watch.", stopped, started, "", stopped},
		"StoppedIsNotNeededAgain": {"A new owner gets a new watch.", stopped, needed, "", stopped},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, next(tc.from, tc.what, tc.why), tc.reason)
		})
	}
}

func TestShown(t *testing.T) {
	for _, state := range []State{Pending, Starting, Synced, Degraded, Stopped} {
		require.Equal(t, state, phase{state: state}.displayState())
	}
	for _, state := range []State{Pending, Starting, Synced, Degraded} {
		require.Equal(t, Draining, phase{state: state, unowned: true}.displayState())
	}
	require.Equal(t, Stopped, phase{state: Stopped, unowned: true}.displayState())
}

func TestClassify(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	cases := map[string]struct {
		reason   string
		err      error
		streamed bool
		what     outcome
		why      Reason
	}{
		"Success":      {"It works.", nil, false, success, ""},
		"NotFound":     {"The resource is not known.", apierrors.NewNotFound(widgets, ""), false, notFound, ReasonNotFound},
		"Forbidden":    {"RBAC says no.", apierrors.NewForbidden(widgets, "", nil), false, retry, ReasonForbidden},
		"NoSuchVerb":   {"The resource cannot be watched.", apierrors.NewMethodNotSupported(widgets, "watch"), false, retry, ReasonForbidden},
		"Unauthorized": {"Credentials are being rotated.", apierrors.NewUnauthorized("no"), false, retry, ReasonUnavailable},
		"Refused":      {"The API server is down.", errors.New("connection refused"), false, retry, ReasonUnavailable},
		"Broken":       {"A conversion webhook fails.", apierrors.NewInternalError(errors.New("webhook")), false, retry, ReasonUnavailable},
		"Throttled":    {"The client has waited for it ten times already.", apierrors.NewTooManyRequests("slow down", 1), false, retry, ReasonUnavailable},
		"Expired":      {"410 is answered with a new list.", apierrors.NewResourceExpired("old"), false, passThrough, ""},
		"TooLarge":     {"An API server that lags behind is asked for its newest.", tooLarge, false, passThrough, ""},
		"NotStreamed":  {"A server that does not stream lists is asked for a plain one.", apierrors.NewBadRequest("no"), true, passThrough, ""},
		"BadRequest":   {"A plain list that is refused is tried again.", apierrors.NewBadRequest("no"), false, retry, ReasonUnavailable},
		"Cancelled":    {"We stopped the watch.", fmt.Errorf("list: %w", context.Canceled), false, passThrough, ""},
		"Silent":       {"Nobody answers.", fmt.Errorf("%w for long", errNoAnswer), false, retry, ReasonUnavailable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			what, why := classify(tc.err, tc.streamed)
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
