package backstop

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const (
	// maxGap is the longest time between two pages of one LIST. A continue token is valid for
	// five minutes at least.
	maxGap = time.Minute
	// pageTimeout bounds one page.
	pageTimeout = 30 * time.Second
	// slowFailure is how long a page takes that delays the LISTs of other watches when it fails.
	slowFailure = time.Second
	// minPage, firstPage and maxPage are numbers of objects in a page: the least, the number in the first page of a watch, and
	// the most.
	minPage, firstPage, maxPage = 10, 100, 2000
	// pageBytes is the memory that the objects of a page should take at most. If the objects of the page before were smaller,
	// they take more, up to the limit of [cluster.InPages].
	pageBytes = 16 << 20
	// verifyQPS is how many objects a second are compared by a dry run because their digests
	// were read from a status, and verifyBurst how many at once.
	verifyQPS, verifyBurst = 1, 30
)

// Watches are the watches whose objects are listed; see [watchregistry.Registry].
type Watches interface {
	Watches() []watchregistry.Watch
	Page(ctx context.Context, key watchregistry.Key, limit int64, token string) (*unstructured.UnstructuredList, error)
	ListAgain(key watchregistry.Key)
}

// Lister lists the objects of every watch once an interval, in pages, and has those compared that
// differ from the expectation of their owners. It asks for one page at a time, so that one is in memory.
type Lister struct {
	Watches Watches
	Trigger *trigger.Factory
	Metrics *metrics.Metrics
	// Interval is the time between two LISTs of a watch. Zero turns them off.
	Interval time.Duration

	lists map[watchregistry.Key]*list
	// paused are the clusters with the earliest time of their next LIST, because one has failed after a while.
	paused map[string]time.Time
	verify flowcontrol.PassiveRateLimiter
}

// list is the LIST of one watch.
type list struct {
	key watchregistry.Key
	// objects are how many the watch has.
	objects int64
	// limit is how many objects the next page may have.
	limit int64
	// due is when the next page is asked for; begun is when the first one was.
	due, begun time.Time
	// failed reports that the last page failed.
	failed bool
	// comparison is of the LIST whose pages are read; nil between two LISTs. token is the
	// continue token of the next page.
	comparison *trigger.Listing
	token      string
}

// Start lists until ctx ends. A manager starts it on the replica that leads.
func (l *Lister) Start(ctx context.Context) error {
	if l.Interval <= 0 {
		return nil
	}
	l.lists, l.paused = map[watchregistry.Key]*list{}, map[string]time.Time{}
	l.verify = flowcontrol.NewTokenBucketPassiveRateLimiter(verifyQPS, verifyBurst)
	for {
		next, wake := l.next(time.Now())
		if next != nil {
			l.page(ctx, next)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wake):
		}
	}
}

// next returns the LIST whose page is due first; else nil, and how long to wait then. Those that have failed come
// after all others, so that these get their turn, however many have failed.
func (l *Lister) next(now time.Time) (first *list, wake time.Duration) {
	lists := make(map[watchregistry.Key]*list, len(l.lists))
	wake = min(maxGap, l.Interval/10) // there may be new watches then
	for _, w := range l.Watches.Watches() {
		at := l.lists[w.Key]
		if at == nil { // a restart is no reason to list everything at once
			due := now.Add(time.Duration(rand.Float64() * float64(l.Interval))) //nolint:gosec // it spreads, it hides nothing
			at = &list{key: w.Key, limit: firstPage, due: due}
		}
		lists[w.Key], at.objects = at, w.Objects
		if w.State != watchregistry.Synced { // it has no objects, or cannot be asked
			continue
		}
		if wait := l.ready(at).Sub(now); wait > 0 {
			wake = min(wake, wait)
			continue
		}
		if first == nil || at.before(first) {
			first = at
		}
	}
	l.lists = lists
	maps.DeleteFunc(l.paused, func(_ string, until time.Time) bool { return !until.After(now) })
	return first, wake
}

// ready returns when the next page of a LIST may be asked for. One that has begun continues: its token expires.
func (l *Lister) ready(at *list) time.Time {
	if until := l.paused[at.key.Cluster]; at.comparison == nil && until.After(at.due) {
		return until
	}
	return at.due
}

// before reports whether the page of a LIST is asked for before the page of another one that is due, too.
func (at *list) before(other *list) bool {
	if at.failed != other.failed {
		return other.failed
	}
	return at.due.Before(other.due)
}

// page asks for the next page of a LIST and compares it.
func (l *Lister) page(ctx context.Context, at *list) {
	ctx, cancel := context.WithTimeout(cluster.InPages(ctx), pageTimeout)
	defer cancel()
	if at.comparison == nil {
		at.begun = time.Now()
		at.comparison = l.Trigger.NewListing(at.key.Cluster, at.key.GVR, at.key.Namespace, l.verify.TryAccept)
	}
	asked := time.Now()
	page, err := l.Watches.Page(ctx, at.key, at.limit, at.token)
	now := time.Now()
	switch {
	case err != nil && at.token != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)):
		// The token expired. The API server offers another one for the newest state of the rest.
		if at.token = continuation(err); at.token == "" {
			at.comparison = nil
		}
		at.due = now.Add(at.gap(l.Interval))
	case errors.Is(err, cluster.ErrPageTooLarge) && at.limit > 1:
		at.limit, at.due = max(1, at.limit/4), now // the objects are larger than those before
	case err != nil:
		l.failed(at, err, asked, now)
	default:
		at.failed = false
		if size, n := at.comparison.Page(page), int64(len(page.Items)); n > 0 {
			at.limit = min(max(pageBytes*n/max(size, 1), minPage), maxPage)
		}
		if at.token == "" && at.comparison.Restored() {
			l.Watches.ListAgain(at.key)
		}
		if at.token, at.due = page.GetContinue(), now.Add(at.gap(l.Interval)); at.token == "" {
			at.comparison.End()
			at.comparison = nil
			if next := at.begun.Add(wait.Jitter(l.Interval, plan.ResyncJitter)); next.After(at.due) {
				at.due = next
			}
		}
	}
}

// gap is the time between two pages, so that the LIST takes less than an interval.
func (at *list) gap(interval time.Duration) time.Duration {
	return min(interval/time.Duration(at.objects/at.limit+2), maxGap)
}

// failed ends a LIST, whose last page was asked for at a time. It is repeated after an interval. A silent API
// server delays the LISTs of other clusters by a small part of the time.
func (l *Lister) failed(at *list, err error, asked, now time.Time) {
	at.comparison, at.token, at.due, at.failed = nil, "", now.Add(wait.Jitter(l.Interval, plan.ResyncJitter)), true
	if errors.Is(err, context.Canceled) || apierrors.IsNotFound(err) { // the kind is gone, and its watch reports that
		return
	}
	l.Metrics.BackstopFailed(at.key.GVR.Group, at.key.GVR.Resource)
	if now.Sub(asked) >= slowFailure {
		l.paused[at.key.Cluster] = now.Add(min(l.Interval/10, 10*pageTimeout))
	}
}

// continuation returns the continue token in the answer to an expired one, or empty.
func continuation(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}
