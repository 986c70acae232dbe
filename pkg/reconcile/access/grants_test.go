package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// asking has rights asked for by a client.
func asking(client dynamic.Interface, rights ...Right) map[Right]dynamic.Interface {
	all := map[Right]dynamic.Interface{}
	for _, right := range rights {
		all[right] = client
	}
	return all
}

// mostInterval is the longest time between two questions.
// It is later after a minute without the right.
const (
	mostInterval  = time.Duration(float64(grantsInterval) * (1 + grantsJitter))
	laterInterval = 2 * mostInterval
)

var (
	vidra     = Subject{User: "vidra"}
	mayPatch  = vidra.Rights(fixture.ConfigMaps, "shop", "patch")[0]
	mayCreate = vidra.Rights(fixture.ConfigMaps, "shop", "create")[0]
	errAway   = errors.New("the API server is away")
)

// authorizer is a reviewer, and notes who is told.
type authorizer struct {
	// watched reports that roles and bindings are watched. It is set before the first right is awaited.
	watched bool
	// mu guards what follows.
	mu      sync.Mutex
	allowed map[Right]bool
	fails   map[Right]error
	// takes is how long an answer takes.
	takes map[Right]time.Duration
	// asked are the times at which each right was asked for, and by whom the last
	// client with which.
	asked   map[Right][]time.Time
	clients map[Right]dynamic.Interface
	told    map[trigger.Owner][]Right
}

func (a *authorizer) review(ctx context.Context, client dynamic.Interface, right Right) (bool, error) {
	a.mu.Lock()
	a.asked[right], a.clients[right] = append(a.asked[right], time.Now()), client
	allowed, err, takes := a.allowed[right], a.fails[right], a.takes[right]
	a.mu.Unlock()
	select {
	case <-time.After(takes):
		return allowed, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// set changes what the authorizer answers.
func (a *authorizer) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// questions is how often a right was asked for.
func (a *authorizer) questions(right Right) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked[right])
}

// toldOf is what an owner was told of.
func (a *authorizer) toldOf(owner trigger.Owner) []Right {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.told[owner]
}

// withGrants runs a test, in which the time passes at once, with grants that ask an
// authorizer.
func withGrants(t *testing.T, test func(t *testing.T, g *Grants, a *authorizer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &authorizer{
			allowed: map[Right]bool{}, fails: map[Right]error{}, takes: map[Right]time.Duration{},
			asked: map[Right][]time.Time{}, clients: map[Right]dynamic.Interface{}, told: map[trigger.Owner][]Right{},
		}
		g := NewGrants(func(owner trigger.Owner, right Right) {
			a.set(func() { a.told[owner] = append(a.told[owner], right) })
		}, func(Right) bool { return a.watched })
		g.review = a.review
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = g.Start(ctx)
		}()
		test(t, g, a)
		cancel()
		<-ended
	})
}

// after lets time pass, and what happens then end.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestGrantIsNoticed(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		one, two := trigger.Owner{Name: "one"}, trigger.Owner{Name: "two"}
		after(time.Hour)
		require.Empty(t, a.asked, "nobody waits")
		g.Await(one, asking(nil, mayPatch))
		g.Await(two, asking(nil, mayPatch))
		after(0)
		require.Equal(t, 1, a.questions(mayPatch), "at once, and once for all")
		after(time.Minute)
		require.InDelta(t, 11, a.questions(mayPatch), 2, "about every 5 seconds")
		for i, then := range a.asked[mayPatch][1:] {
			require.GreaterOrEqual(t, then.Sub(a.asked[mayPatch][i]), grantsInterval)
		}
		require.Empty(t, a.told)

		a.set(func() { a.allowed[mayPatch] = true })
		after(laterInterval)
		require.Equal(t, []Right{mayPatch}, a.toldOf(one))
		require.Equal(t, []Right{mayPatch}, a.toldOf(two))
		asked := a.questions(mayPatch)
		after(time.Hour)
		require.Equal(t, asked, a.questions(mayPatch), "nobody waits for it any more")
		require.Len(t, a.toldOf(one), 1)
		require.Empty(t, g.missing)
		require.Empty(t, slices.Collect(g.awaited.All()))
	})
}

// TestOtherRefusalIsNoLoop has a request be refused although the right is there, as
// a quota and an admission policy do.
func TestOtherRefusalIsNoLoop(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		a.allowed[mayPatch] = true
		for i := range 10 { // its own retries, each refused
			g.Await(owner, asking(nil, mayPatch))
			after(time.Minute)
			require.Equal(t, i+1, a.questions(mayPatch), "once for each refusal")
		}
		require.Empty(t, a.told)

		a.set(func() { a.allowed[mayPatch] = false })
		g.Await(owner, asking(nil, mayPatch))
		after(time.Minute)
		a.set(func() { a.allowed[mayPatch] = true })
		after(2 * mostInterval) // the interval grows with the time for which it is missing
		require.Len(t, a.toldOf(owner), 1, "what is missing after all is noticed")
		g.Await(owner, asking(nil, mayPatch)) // and a quota refuses it now
		after(time.Hour)
		require.Len(t, a.toldOf(owner), 1)
	})
}

// TestRefusedAgainWhileWaiting has the retries of an owner be refused while it waits:
// that the right was missing is not forgotten.
func TestRefusedAgainWhileWaiting(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		g.Await(owner, asking(nil, mayPatch))
		after(time.Minute)
		a.set(func() { a.allowed[mayPatch] = true })
		g.Await(owner, asking(nil, mayPatch)) // it was refused a moment before
		after(laterInterval)
		require.Len(t, a.toldOf(owner), 1)
	})
}

// TestRightsAreToldOneByOne has an apply need two rights, as one that creates does.
func TestRightsAreToldOneByOne(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		a.allowed[mayPatch] = true
		g.Await(owner, asking(nil, mayPatch, mayCreate))
		after(time.Minute)
		require.Equal(t, 1, a.questions(mayPatch), "it was not missing")
		require.Greater(t, a.questions(mayCreate), 5)
		g.Await(owner, asking(nil, mayPatch, mayCreate))
		a.set(func() { a.allowed[mayCreate] = true })
		after(time.Minute)
		require.Equal(t, []Right{mayCreate}, a.toldOf(owner))
	})
}

func TestWhatIsAwaitedIsReplaced(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		one, two := trigger.Owner{Name: "one"}, trigger.Owner{Name: "two"}
		first, second := &dynamic.DynamicClient{}, &dynamic.DynamicClient{}
		g.Await(one, asking(first, mayPatch, mayCreate))
		after(time.Minute)
		require.Same(t, first, a.clients[mayCreate])
		g.Await(one, asking(second, mayCreate))
		asked := a.questions(mayPatch)
		after(time.Minute)
		require.Equal(t, asked, a.questions(mayPatch), "nobody waits for it")
		require.Same(t, second, a.clients[mayCreate], "the newest credentials")

		g.Await(two, asking(second, mayCreate))
		g.Await(one, nil)
		a.set(func() { a.allowed[mayCreate] = true })
		after(grantsMaxInterval) // the interval has grown
		require.Empty(t, a.toldOf(one), "it waits no longer")
		require.Len(t, a.toldOf(two), 1)
		require.Empty(t, slices.Collect(g.awaited.All()))
	})
}

// TestQuestionsAreBounded has more rights be missing than can be asked for in time.
func TestQuestionsAreBounded(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		const many = 500
		var rights []Right
		for i := range many {
			right := vidra.Rights(fixture.ConfigMaps, fmt.Sprintf("ns-%d", i), "patch")[0]
			rights = append(rights, right)
			g.Await(trigger.Owner{Name: right.Namespace}, asking(nil, right))
		}
		after(100 * time.Second)
		total := 0
		for _, right := range rights {
			asked := a.questions(right)
			require.InDelta(t, 4, asked, 1, "each gets its turn")
			total += asked
		}
		require.LessOrEqual(t, total, 101*grantsQPS)
	})
}

// TestTenantsTakeTurns has two accounts of a namespace miss thousands of rights: a right that is granted in another namespace is noticed as soon as without them.
func TestTenantsTakeTurns(t *testing.T) {
	for _, watched := range []bool{false, true} {
		withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
			a.watched = watched
			for _, account := range []string{"one", "two"} {
				var all []Right
				for i := range 5000 {
					all = append(all, Subject{User: "system:serviceaccount:hostile:" + account}.Rights(fixture.ConfigMaps, fmt.Sprintf("ns-%d", i), "patch")...)
				}
				g.Await(trigger.Owner{Name: account}, asking(nil, all...))
			}
			after(time.Second)
			owner, right := trigger.Owner{Name: "honest"}, Subject{User: "system:serviceaccount:shop:deployer"}.Rights(fixture.ConfigMaps, "shop", "patch")[0]
			g.Await(owner, asking(nil, right))
			after(time.Second)
			require.Equal(t, 1, a.questions(right))
			g.Recheck("", "hostile")
			a.set(func() { a.allowed[right] = true })
			g.Recheck("", "shop")
			after(mostInterval)
			require.Equal(t, []Right{right}, a.toldOf(owner))
		})
	}
}

// TestGrantsAreConcurrent has owners come and go while rights do.
func TestGrantsAreConcurrent(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		var owners sync.WaitGroup
		for i := range 20 {
			owners.Go(func() {
				owner := trigger.Owner{Name: fmt.Sprint(i)}
				for range 50 {
					g.Await(owner, asking(nil, mayPatch, mayCreate))
					<-time.After(time.Duration(i) * time.Second)
					g.Await(owner, asking(nil, mayCreate))
					a.set(func() { a.allowed[mayPatch] = !a.allowed[mayPatch] })
				}
				g.Await(owner, nil)
			})
		}
		owners.Wait()
		require.Empty(t, g.missing)
		require.Empty(t, slices.Collect(g.awaited.All()))
		after(time.Hour)
	})
}

func TestRefusedRights(t *testing.T) {
	forbidden := apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "web", errors.New("no"))
	cases := map[string]struct {
		reason string
		err    error
		want   []Right
	}{
		"None":      {"It succeeded.", nil, nil},
		"Forbidden": {"The API server checks both for an apply.", forbidden, []Right{mayPatch, mayCreate}},
		"Wrapped":   {"Errors name the object.", fmt.Errorf("apply: %w", forbidden), []Right{mayPatch, mayCreate}},
		"Other":     {"No right would help.", apierrors.NewNotFound(fixture.ConfigMaps.GroupResource(), "web"), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, vidra.Refused(tc.err, fixture.ConfigMaps, "shop", "patch", "create"), tc.reason)
		})
	}
}

// TestSelfReview looks at what is sent, and makes up the answers.
func TestSelfReview(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	right := vidra.Rights(deployments, "shop", "patch")[0]
	cases := map[string]struct {
		reason  string
		answer  func(w http.ResponseWriter)
		allowed bool
		fails   bool
	}{
		"Allowed": {"The API server says so.", answerReview(true), true, false},
		"Denied":  {"The API server says so.", answerReview(false), false, false},
		"Fails":   {"It says nothing.", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var review authorizationv1.SelfSubjectAccessReview
				if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
					t.Error(err)
				}
				if r.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" || review.Kind != "SelfSubjectAccessReview" ||
					r.Method != http.MethodPost || *review.Spec.ResourceAttributes != right.ResourceAttributes {
					t.Errorf("%s %s: %+v", r.Method, r.URL.Path, review)
				}
				tc.answer(w)
			}))
			defer server.Close()
			client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, Transport: &http.Transport{DisableKeepAlives: true}})
			require.NoError(t, err)
			allowed, err := Allowed(t.Context(), client, right)
			require.Equal(t, tc.fails, err != nil, "%s: %v", tc.reason, err)
			require.Equal(t, tc.allowed, allowed, tc.reason)
		})
	}
}

// answerReview answers a review.
func answerReview(allowed bool) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{}, "status": map[string]any{"allowed": allowed},
		})
	}
}

// TestMissingRightIsAskedForLessOften: a right that stays missing costs few questions in the end, and is noticed.
func TestMissingRightIsAskedForLessOften(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		owner := trigger.Owner{Name: "one"}
		g.Await(owner, asking(nil, mayPatch))
		after(2 * time.Hour)
		before := a.questions(mayPatch)
		after(time.Hour)
		require.LessOrEqual(t, a.questions(mayPatch)-before, 30, "one every two minutes")
		a.set(func() { a.allowed[mayPatch] = true })
		after(2 * grantsMaxInterval)
		require.Len(t, a.toldOf(owner), 1)
	})
}

// TestWatchedRolesCostNoQuestions: where roles and bindings are watched, a right that stays missing is asked for when these change.
func TestWatchedRolesCostNoQuestions(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		a.watched = true
		owner := trigger.Owner{Name: "one"}
		g.Await(owner, asking(nil, mayPatch))
		after(time.Hour)
		require.Equal(t, grantsAttempts, a.questions(mayPatch), "nothing changes")
		g.Recheck(mayPatch.Subject.Cluster, "elsewhere")
		after(time.Hour)
		require.Equal(t, grantsAttempts, a.questions(mayPatch), "a role of another namespace")
		g.Recheck(mayPatch.Subject.Cluster, mayPatch.Namespace)
		g.Recheck(mayPatch.Subject.Cluster, "")
		after(time.Hour)
		require.Equal(t, 2*grantsAttempts, a.questions(mayPatch), "two changes at once")
		require.Empty(t, a.told)
		g.Recheck(mayPatch.Subject.Cluster, "")
		after(grantsDelay / 2)
		a.set(func() { a.allowed[mayPatch] = true })
		after(grantsDelay)
		require.Len(t, a.told[owner], 1, "it was granted")
	})
}

// TestRolesOfTheAccount: a right of an account is asked for when the roles or bindings of its namespace change, as they may allow Vidra to act as the account.
func TestRolesOfTheAccount(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		a.watched = true
		right := Subject{User: "system:serviceaccount:team:deployer"}.Rights(fixture.ConfigMaps, "", "patch")[0]
		require.Equal(t, []string{"team", ""}, right.Namespaces())
		g.Await(trigger.Owner{Name: "one"}, asking(nil, right))
		after(time.Hour)
		g.Recheck("", "shop")
		after(time.Hour)
		require.Equal(t, grantsAttempts, a.questions(right), "another namespace")
		g.Recheck("", "team")
		after(time.Hour)
		require.Equal(t, 2*grantsAttempts, a.questions(right))
	})
}

// TestRolesThatAreWatchedNoMore: a missing right is asked for from time to time after the end of a watch of its roles.
func TestRolesThatAreWatchedNoMore(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		a.watched = true
		owner := trigger.Owner{Name: "one"}
		g.Await(owner, asking(nil, mayPatch))
		after(time.Hour)
		a.watched = false
		g.Recheck(mayPatch.Subject.Cluster, mayPatch.Namespace)
		after(time.Hour)
		require.Greater(t, a.questions(mayPatch), 2*grantsAttempts)
		a.set(func() { a.allowed[mayPatch] = true })
		after(2 * grantsMaxInterval)
		require.Len(t, a.toldOf(owner), 1)
	})
}

// TestQuestionsWithoutAnAnswer: a right that was granted is noticed, although no question after the change was answered.
func TestQuestionsWithoutAnAnswer(t *testing.T) {
	withGrants(t, func(t *testing.T, g *Grants, a *authorizer) {
		a.watched = true
		owner := trigger.Owner{Name: "one"}
		g.Await(owner, asking(nil, mayPatch))
		after(time.Minute)
		a.set(func() { a.fails[mayPatch], a.allowed[mayPatch] = errAway, true })
		g.Recheck(mayPatch.Subject.Cluster, "")
		after(5 * time.Minute)
		require.Empty(t, a.toldOf(owner))
		a.set(func() { a.fails[mayPatch] = nil })
		after(2 * grantsMaxInterval)
		require.Len(t, a.toldOf(owner), 1)
	})
}
