package watchregistry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

const (
	// silenceTimeout is how long a LIST or WATCH may wait for its answer, and a streamed
	// list for its next object, before its watch is Degraded and its list slot is free.
	silenceTimeout = 10 * time.Second
	// streamTimeout is how long a streamed list may wait for its next object before it is
	// replaced by a plain LIST. A server to which streamed lists are unknown returns no error:
	// it never marks the end of the list, and sends the changes of the objects.
	streamTimeout = 30 * time.Second
	// listTimeout bounds a LIST. The API server's own limit is a minute.
	listTimeout = 75 * time.Second
	// streamedListTimeout is the limit of a streamed list in all. A server to which streamed lists are unknown sends new objects
	// like the objects of the list.
	streamedListTimeout = 5 * time.Minute
	// maxUndecodableStreams is how many streams in a row may be undecodable before the
	// reflector lists again. The connection of one may have been cut.
	maxUndecodableStreams = 2
)

// retryingClient sends the requests of an informer to the API server. It repeats failed
// requests with a backoff that can end early, so that the reflector never waits with its
// own backoff. It bounds how many lists run at a time, and reports the outcome of the
// requests to the watch. It serves one informer run, whose reflector sends one request at
// a time.
type retryingClient struct {
	// served asks discovery, without its cache, whether the resource is served.
	served func(ctx context.Context) (bool, error)
	// report receives the events of the watch.
	report func(what event, reason Reason, err error)
	// listLimiter bounds the lists of the cluster.
	listLimiter *listLimiter
	backoff     *requestBackoff
	stats       *stats
	// maxObjects limits the objects of a streamed list, and those in the stores of all watches of
	// the resource in the cluster; zero means no limit.
	maxObjects int64
	// pages bounds the pages of lists that are read at a time, where lists that are not streamed are read in pages; nil
	// elsewhere.
	pages *semaphore.Weighted
	// onList is Options.OnList of the watch, or nil.
	onList func() func(resourceVersion string)
	// listAgain holds a token when all objects are to be listed again.
	listAgain <-chan struct{}

	lists listProgress
}

// listProgress is the knowledge of a client about its lists, from the answers until now.
type listProgress struct {
	// streamed reports that the reflector asks for streamed lists.
	streamed bool
	// plain is whether lists are not streamed, interrupted whether the last list
	// was streamed and ended early, or stalled, expired whether a WATCH or LIST was answered with 410
	// and no WATCH has brought an event since.
	plain, interrupted, expired bool
	// undecodable counts the undecodable streams in a row.
	undecodable int
	// pageLimit is how many objects a page has at most; zero before the first page.
	pageLimit int64
}

// do sends a request until it succeeds, or returns an error that the reflector has to
// handle.
func (g *retryingClient) do(ctx context.Context, streamedList bool, send func(context.Context) error) error {
	for {
		if err := g.backoff.wait(ctx); err != nil {
			return err
		}
		err := send(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		what, reason := classify(err, streamedList)
		if what == notFound {
			// The API server may answer 404 for a moment after a kind was installed.
			if served, askErr := g.served(ctx); askErr == nil && !served {
				g.stats.restarted(string(ReasonNotFound))
				g.report(notServed, ReasonNotFound, err)
				return err
			}
		}
		switch what {
		case success:
			g.backoff.reset()
			return nil
		case passThrough:
			if isExpired(err) {
				g.expire(err)
			}
			return err
		case retry, notFound:
			g.fail(reason, err)
		}
	}
}

// fail records a failure, after which the next request waits.
func (g *retryingClient) fail(reason Reason, err error) {
	g.stats.restarted(string(reason))
	g.report(failed, reason, err)
	seconds, _ := apierrors.SuggestsClientDelay(err)
	g.backoff.failed(reason, time.Duration(seconds)*time.Second)
}

// expire records that the requested resourceVersion is too old (410), so that the reflector
// lists again. If the WATCH after that list expires as well, the watch is Degraded and sends
// at most one request a second.
func (g *retryingClient) expire(err error) {
	g.stats.restarted(restartExpired)
	if g.lists.expired {
		g.report(failed, ReasonUnavailable, err)
		g.backoff.delay(minStreamLife)
	}
	g.lists.expired = true
}

// isExpired reports whether an error is a 410.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// sendList sends a LIST while it holds a list slot.
func (g *retryingClient) sendList(ctx context.Context, send func(context.Context) error) error {
	slot, err := g.listLimiter.acquire(ctx, g.reportSilence)
	if err != nil {
		return err
	}
	defer slot.release()
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errNoAnswer)
	defer cancel()
	if err := send(ctx); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errNoAnswer) {
			return fmt.Errorf("%w: the request was canceled after %s", cause, listTimeout)
		}
		return err
	}
	return nil
}

// errNoAnswer is the error of a request that the API server leaves unanswered.
var errNoAnswer = errors.New("the API server does not answer")

// reportSilence reports that a list makes no progress.
func (g *retryingClient) reportSilence() { g.report(failed, ReasonUnavailable, errNoAnswer) }

// beginList returns the function to call with the version of a list. current reports that the list is as new as etcd.
func (g *retryingClient) beginList(current bool) (done func(version string)) {
	if g.onList == nil || !current {
		return func(string) {}
	}
	return g.onList()
}

// list sends a LIST.
func list[T interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, g *retryingClient, opts metav1.ListOptions, send func(context.Context) (T, error)) (T, error) {
	var answer T
	if g.pages != nil && g.lists.streamed { // the reflector lists as a whole after a list that broke off
		g.lists.interrupted = true
		return answer, apierrors.NewServiceUnavailable("this list is read in pages")
	}
	done := g.beginList(opts.ResourceVersion == "" || g.lists.expired)
	err := g.do(ctx, false, func(ctx context.Context) error {
		return g.sendList(ctx, func(ctx context.Context) error {
			var err error
			answer, err = send(ctx)
			return err
		})
	})
	if err == nil {
		g.lists.interrupted = false
		done(answer.GetResourceVersion())
		g.report(listed, "", nil)
	}
	return answer, err
}

// sendWatch sends a WATCH.
type sendWatch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)

// watch sends a WATCH and returns its stream. list sends one page of a LIST.
func (g *retryingClient) watch(ctx context.Context, opts metav1.ListOptions, send sendWatch, list sendList) (apiwatch.Interface, error) {
	streamedList := ptr.Deref(opts.SendInitialEvents, false)
	g.lists.streamed = g.lists.streamed || streamedList
	switch {
	case streamedList && (g.lists.plain || g.lists.interrupted) && g.pages != nil:
		return g.watchPages(ctx, opts, send, list)
	case streamedList && (g.lists.plain || g.lists.interrupted):
		// A server that does not know streamed lists may answer like this, after which
		// the reflector sends a LIST.
		return nil, apierrors.NewBadRequest("lists are not streamed here")
	case streamedList && g.lists.expired:
		opts.ResourceVersion = "" // the version of the time before says nothing
	}
	var onListed func(string)
	if streamedList {
		onListed = g.beginList(opts.ResourceVersion == "")
	}
	var source apiwatch.Interface
	var initial *listSlot
	err := g.do(ctx, streamedList, func(ctx context.Context) (err error) {
		if streamedList {
			if initial, err = g.listLimiter.acquire(ctx, g.reportSilence); err != nil {
				return err
			}
		}
		if source, err = g.open(ctx, opts, send); err != nil {
			initial.release()
		}
		return err
	})
	if err != nil {
		if source != nil {
			source.Stop() // it arrived when the watch ended
		}
		initial.release()
		if g.pages != nil && streamedList && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
			g.lists.plain = true
			return g.watchPages(ctx, opts, send, list)
		}
		return nil, err
	}
	if !streamedList {
		g.report(answered, "", nil)
	}
	return newStream(g, source, initial, onListed), nil
}

// open sends a WATCH, and cancels it if the answer of the API server begins too late.
func (g *retryingClient) open(ctx context.Context, opts metav1.ListOptions, send sendWatch) (apiwatch.Interface, error) {
	timeout := listTimeout
	if ptr.Deref(opts.SendInitialEvents, false) {
		timeout = streamTimeout
	}
	// The stream lasts as long as ctx, so ctx must not end with the timeout.
	ctx, cancel := context.WithCancelCause(ctx)
	giveUp := time.AfterFunc(timeout, func() { cancel(errNoAnswer) })
	answered := reportIfSilent(g.reportSilence)
	source, err := send(ctx, opts)
	answered()
	if giveUp.Stop() && err == nil {
		return cancelingWatch{Interface: source, cancel: cancel}, nil
	}
	if err == nil { // it arrived when the timeout canceled it
		source.Stop()
	}
	if err == nil || errors.Is(context.Cause(ctx), errNoAnswer) {
		err = fmt.Errorf("%w: the request was canceled after %s", errNoAnswer, timeout)
	}
	cancel(nil)
	return nil, err
}

// reportIfSilent calls silent after silenceTimeout, unless answered is called before.
// silent does not run any more when answered returns.
func reportIfSilent(silent func()) (answered func()) {
	ran := make(chan struct{})
	timer := time.AfterFunc(silenceTimeout, func() {
		defer close(ran)
		silent()
	})
	return func() {
		if !timer.Stop() {
			<-ran
		}
	}
}

// cancelingWatch is a stream that cancels its context when it is stopped.
type cancelingWatch struct {
	apiwatch.Interface
	cancel context.CancelCauseFunc
}

func (c cancelingWatch) Stop() {
	c.Interface.Stop()
	c.cancel(nil)
}
