package access

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestReviewThatFails has the API server not answer for a while.
func TestReviewThatFails(t *testing.T) {
	cases := map[string]struct {
		reason string
		denied bool
		told   int
	}{
		"AfterItWasDenied": {"It is known to have been missing.", true, 1},
		"FromTheBeginning": {"It may have been there all the time.", false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
				owner := trigger.Owner{Name: "one"}
				if !tc.denied {
					a.fails[mayPatch] = errAway
				}
				g.Await(owner, asking(nil, mayPatch))
				after(mostInterval)
				a.set(func() { a.fails[mayPatch], a.allowed[mayPatch] = errAway, true })
				after(time.Minute)
				require.InDelta(t, 12, a.questions(mayPatch), 2, "it is asked again, no faster")
				require.Empty(t, a.told)
				a.set(func() { delete(a.fails, mayPatch) })
				after(laterInterval)
				require.Len(t, a.toldOf(owner), tc.told, tc.reason)
				require.Empty(t, g.missing)
			})
		})
	}
}

// TestGrantToImpersonateIsNoticed has the API server refuse the questions, too: who may
// not be impersonated cannot even ask.
func TestGrantToImpersonateIsNoticed(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "deployer", errors.New("cannot impersonate"))
		a.fails[mayPatch] = fmt.Errorf("ask for the right: %w", refused)
		g.Await(owner, asking(nil, mayPatch))
		after(time.Minute)
		require.Empty(t, a.told)
		a.set(func() { delete(a.fails, mayPatch); a.allowed[mayPatch] = true })
		after(laterInterval)
		require.Equal(t, []Right{mayPatch}, a.toldOf(owner))
		g.Await(owner, asking(nil, mayPatch)) // it is refused for another reason
		after(time.Hour)
		require.Len(t, a.toldOf(owner), 1)
	})
}

// TestReviewThatHangs has the API server of one cluster not answer.
func TestReviewThatHangs(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		stalled := Subject{Cluster: "stalled"}.Rights(fixture.ConfigMaps, "shop", "patch", "create", "delete")
		for _, right := range stalled {
			a.takes[right] = time.Hour
		}
		g.Await(owner, asking(nil, append(stalled, mayPatch)...))
		after(time.Minute)
		require.InDelta(t, 11, a.questions(mayPatch), 2, "nobody waits for the other cluster")
		require.InDelta(t, 4, a.questions(stalled[0]), 1, "which is given up each time")
	})
}

// TestAnswerThatIsLate has an owner be refused again between a question and its
// answer, which says nothing of what has been refused since.
func TestAnswerThatIsLate(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		a.takes[mayPatch] = 3 * time.Second
		g.Await(owner, asking(nil, mayPatch))
		after(time.Second)
		g.Await(owner, nil)
		a.set(func() { a.allowed[mayPatch] = true })
		g.Await(owner, asking(nil, mayPatch))
		after(time.Minute)
		require.Equal(t, 2, a.questions(mayPatch))
		require.Empty(t, a.told, "when it was asked for after the refusal, it was there")
	})
}
