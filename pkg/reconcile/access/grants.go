package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// grantsInterval is the least time between two questions whether a right has been granted, except for the jitter. It grows
	// to the grantsShare-th part of the time without the right, and to grantsMaxInterval at most. grantsQPS bounds the
	// questions a second in all.
	grantsInterval    = 5 * time.Second
	grantsShare       = 8
	grantsMaxInterval = 2 * time.Minute
	grantsJitter      = 0.2
	grantsQPS         = 20
	// grantsAttempts is the number of questions after a change of the roles or bindings, where these are watched: the API server
	// heeds a change a moment later. grantsDelay is the delay of the first of them.
	grantsAttempts = 3
	grantsDelay    = time.Second
	// reviewTimeout is how long the API server may take to answer one.
	reviewTimeout = 10 * time.Second
)

// Subject is who asks an API server for something.
type Subject struct {
	// Cluster is the name of the cluster, and user whom Vidra impersonates there;
	// empty if it acts as itself.
	Cluster, User string
}

// Right is one right of a subject. It is comparable as long as its selectors are unset. The right of a request about a
// managed object leaves out its name: a role with resourceNames is missed then.
type Right struct {
	Subject Subject
	authorizationv1.ResourceAttributes
}

// Rights are those to do verbs with a resource in a namespace, or in all if it is
// empty.
func (s Subject) Rights(gvr schema.GroupVersionResource, namespace string, verbs ...string) []Right {
	rights := make([]Right, 0, len(verbs))
	for _, verb := range verbs {
		rights = append(rights, Right{Subject: s, ResourceAttributes: authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource,
		}})
	}
	return rights
}

// Right is the right to do verb with an object.
func (s Subject) Right(key trigger.ObjectKey, verb string) Right {
	right := s.Rights(key.GVR, key.Namespace, verb)[0]
	right.Name = key.Name
	return right
}

// Namespaces returns the namespaces whose roles and bindings may grant the right, or the right to ask for it as its subject. Empty is no namespace.
func (r Right) Namespaces() []string {
	of, _, _ := serviceaccount.SplitUsername(r.Subject.User)
	return slices.Compact([]string{of, r.Namespace})
}

// Allowed reports whether the subject of a client has a right.
func Allowed(ctx context.Context, client dynamic.Interface, right Right) (bool, error) {
	return ask(ctx, client, selfReviews, right, &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right.ResourceAttributes},
	})
}

// AllowedTo reports whether a ServiceAccount has a right. The client asks as itself, which needs no right to impersonate the account.
func AllowedTo(ctx context.Context, client dynamic.Interface, right Right) (bool, error) {
	namespace, _, _ := serviceaccount.SplitUsername(right.Subject.User)
	return ask(ctx, client, subjectReviews, right, &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: right.Subject.User, Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
			ResourceAttributes: &right.ResourceAttributes,
		},
	})
}

// Refused are the rights that may have been missing if a request failed with err:
// empty except for an answer of 403. verbs are all that it may have asked for,
// such as patch and create for an apply of an object that may not exist.
func (s Subject) Refused(err error, gvr schema.GroupVersionResource, namespace string, verbs ...string) []Right {
	if !apierrors.IsForbidden(err) {
		return nil
	}
	return s.Rights(gvr, namespace, verbs...)
}

// Grants notices that rights which were refused have been granted. It asks the API
// server that refused them as the subject that it refused, which needs only the
// right to impersonate the subject, when the roles and bindings change, or where these are not watched from time to time.
//
// A quota and an admission policy refuse with 403, too. Then the first question finds the right, so that another thing was
// missing: the owners stay unnotified, or they would be refused again, and again.
//
// Its methods are safe for concurrent use.
type Grants struct {
	// granted is called when an owner was granted a right. It may be called from
	// several goroutines, and must not block.
	granted func(owner trigger.Owner, right Right)
	// watched reports whether a change of the roles and bindings of a right is followed by a call of Recheck.
	watched func(right Right) bool
	// review asks whether the subject of a client has a right.
	review  func(ctx context.Context, client dynamic.Interface, right Right) (allowed bool, err error)
	limiter flowcontrol.RateLimiter
	// due holds the rights to ask for.
	due workqueue.TypedDelayingInterface[Right]

	// mu guards awaited, missing and the rights in missing.
	mu sync.Mutex
	// awaited relates the owners to the rights that they wait for; missing has the same
	// rights.
	awaited relation.Relation[trigger.Owner, Right]
	missing map[Right]*missingRight
}

// missingRight is a right that some owners wait for. It ends with the last of them.
type missingRight struct {
	client dynamic.Interface
	// since is when an owner began to wait for the right.
	since time.Time
	// denied is whether the API server has answered that the right is missing: of the right
	// itself, or of that to ask for it, as that to impersonate the subject is.
	denied bool
	// left is the number of questions that are to be answered without a change, where the roles and bindings are watched.
	left int
}

// NewGrants makes grants, which ask only after run was called. run must be called,
// once, for its goroutines to end.
func NewGrants(granted func(owner trigger.Owner, right Right), watched func(right Right) bool) *Grants {
	inTurns := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Right]{Queue: &turns{waiting: map[tenant][]Right{}}})
	return &Grants{
		granted: granted, watched: watched,
		review:  Allowed,
		limiter: flowcontrol.NewTokenBucketRateLimiter(grantsQPS, grantsQPS),
		due:     workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Right]{Queue: inTurns}),
		missing: map[Right]*missingRight{},
	}
}

// Await makes the set of rights that owner waits for exactly rights, after a request
// was refused for want of one of them; nil empties it. Each comes with the client that
// asks as its subject.
// Each is asked for at once, and then when roles or bindings change, or where these are not watched now and then. Once it is known to be granted,
// the wait for it ends. It does not block.
func (g *Grants) Await(owner trigger.Owner, rights map[Right]dynamic.Interface) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, removed := g.awaited.Set(owner, maps.Keys(rights))
	for _, right := range removed {
		if !g.awaited.Needed(right) {
			delete(g.missing, right)
		}
	}
	for right, client := range rights {
		m := g.missing[right]
		if m == nil {
			m = &missingRight{since: time.Now(), left: grantsAttempts}
			g.missing[right] = m
			g.due.Add(right)
		}
		m.client = client // the newest credentials
	}
}

// Recheck asks again for the rights that a namespace of a cluster may grant, or for all of the cluster, because roles or bindings changed there.
func (g *Grants) Recheck(cluster, namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for right, m := range g.missing {
		if right.Subject.Cluster != cluster || namespace != "" && !slices.Contains(right.Namespaces(), namespace) {
			continue
		}
		if m.left == 0 { // otherwise it is asked for soon
			g.due.AddAfter(right, grantsDelay)
		}
		m.left = grantsAttempts
	}
}

// Start asks until ctx ends, and returns after its last question. It makes the grants a manager's runnable.
func (g *Grants) Start(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	context.AfterFunc(ctx, g.due.ShutDown)
	for {
		right, shutdown := g.due.Get()
		if shutdown {
			return nil
		}
		if g.limiter.Wait(ctx) != nil {
			g.due.Done(right)
			return nil
		}
		// A silent API server must not delay another one.
		asking.Go(func() {
			defer g.due.Done(right)
			g.ask(ctx, right)
		})
	}
}

// ask asks for a right, and notifies the owners that wait for it if it was granted.
func (g *Grants) ask(ctx context.Context, right Right) {
	g.mu.Lock()
	m, waited := g.missing[right]
	if !waited { // the last owner has stopped waiting
		g.mu.Unlock()
		return
	}
	client := m.client
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	allowed, err := g.review(ctx, client, right)
	for _, owner := range g.answered(right, m, allowed, err) {
		g.granted(owner, right)
	}
}

// answered notes an answer, and returns the owners that were granted the right. An owner that
// began to wait for the right after it was asked for waits for another m, and is left out.
func (g *Grants) answered(right Right, m *missingRight, allowed bool, err error) []trigger.Owner {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil || !allowed {
		answered := err == nil || apierrors.IsForbidden(err)
		m.denied = m.denied || answered
		if answered && g.watched(right) {
			if m.left = max(0, m.left-1); m.left == 0 {
				return nil
			}
		}
		interval := min(max(time.Since(m.since)/grantsShare, grantsInterval), grantsMaxInterval)
		g.due.AddAfter(right, wait.Jitter(interval, grantsJitter))
		return nil
	}
	if g.missing[right] != m {
		return nil
	}
	delete(g.missing, right)
	owners := g.awaited.Drop(right)
	if !m.denied {
		return nil
	}
	return owners
}

// Resources of questions about rights.
var (
	selfReviews    = authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
	subjectReviews = authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")
)

// ask sends a question about a right.
func ask(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, right Right, question any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(question)
	if err != nil {
		return false, fmt.Errorf("write the review of the right to %s %s: %w", right.Verb, right.Resource, err)
	}
	answer, err := client.Resource(gvr).Create(ctx, &unstructured.Unstructured{Object: body}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for the right to %s %s: %w", right.Verb, right.Resource, err)
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
