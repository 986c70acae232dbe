package watchregistry

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

const (
	// silence is how long a LIST or WATCH may go on without an answer, and a
	// streamed list without another object, before its watch is Degraded and others
	// may LIST.
	silence = 10 * time.Second
	// streamTimeout is how long a streamed list may go on without another object
	// before it is given up and asked for as a plain LIST: a server that does not
	// know streamed lists does not say so, and never marks the end of one, while the
	// changes of the objects go on to come.
	streamTimeout = 30 * time.Second
	// listTimeout bounds a LIST. The API server's own limit is a minute.
	listTimeout = 75 * time.Second
	// streamMost is how long a streamed list may take in all. New objects come like
	// those of the list from a server that does not know streamed lists.
	streamMost = 5 * time.Minute
	// unreadMost is how many streams in a row may bring nothing but what cannot be
	// decoded before everything is listed anew. One may have been cut.
	unreadMost = 2
)

// gate stands between an informer and the API server. It repeats what fails,
// with the breaker's patience, so that the reflector behind it does not wait on
// its own, which nothing could end early; it bounds how many lists are under way;
// and it tells what becomes of the requests. It serves one incarnation of an
// informer, whose reflector sends one request at a time.
type gate struct {
	// served asks discovery, past its cache, whether the resource is served.
	served func(ctx context.Context) (bool, error)
	// tell takes what happens to the watch.
	tell func(what event, reason Reason, err error)
	// lists bounds the lists under way.
	lists   *lists
	breaker *breaker
	stats   *stats
	// most is how many objects a streamed list may have, and be kept; zero if any number.
	most int64

	// plain says that lists are not streamed; brokeOff says that the last one was,
	// and ended early; expired says that a WATCH or LIST was answered with 410, and
	// no WATCH has brought anything since.
	plain, brokeOff, expired bool
	// unread counts the streams in a row that brought nothing but what could not be
	// decoded.
	unread int
}

// do sends a request until it succeeds, or fails in a way that the reflector
// has to know of.
func (g *gate) do(ctx context.Context, streamedList bool, send func(context.Context) error) error {
	for {
		if err := g.breaker.wait(ctx); err != nil {
			return err
		}
		err := send(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		what, reason := classify(err, streamedList)
		if what == missing {
			// The API server may answer 404 for a moment while a kind comes.
			if served, askErr := g.served(ctx); askErr == nil && !served {
				g.stats.restarted(string(ReasonNotFound))
				g.tell(notServed, ReasonNotFound, err)
				return err
			}
		}
		switch what {
		case success:
			g.breaker.reset()
			return nil
		case pass:
			if isExpired(err) {
				g.expire(err)
			}
			return err
		case retry, missing:
			g.fail(reason, err)
		}
	}
}

// fail notes a failure, after which the next request waits.
func (g *gate) fail(reason Reason, err error) {
	g.stats.restarted(string(reason))
	g.tell(failed, reason, err)
	seconds, _ := apierrors.SuggestsClientDelay(err)
	g.breaker.trip(reason, time.Duration(seconds)*time.Second)
}

// expire notes that the API server has forgotten what was asked for (410), and that
// the reflector lists anew. If what comes of that has expired as well, the watch is
// Degraded and asks no faster than once a second.
func (g *gate) expire(err error) {
	g.stats.restarted(restartExpired)
	if g.expired {
		g.tell(failed, ReasonUnavailable, err)
		g.breaker.hold(shortLived)
	}
	g.expired = true
}

// isExpired says whether an error is a 410.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// listing sends a LIST while holding one of the few places for lists.
func (g *gate) listing(ctx context.Context, send func(context.Context) error) error {
	place, err := g.lists.enter(ctx, g.silent)
	if err != nil {
		return err
	}
	defer place.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errSilent)
	defer cancel()
	if err := send(ctx); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			return fmt.Errorf("%w: it was given up after %s", cause, listTimeout)
		}
		return err
	}
	return nil
}

// errSilent is the error of a list that the API server does not answer.
var errSilent = errors.New("the API server does not answer")

// silent tells that a list goes on without a sign.
func (g *gate) silent() { g.tell(failed, ReasonUnavailable, errSilent) }

// list sends a LIST.
func list[T runtime.Object](ctx context.Context, g *gate, send func(context.Context) (T, error)) (T, error) {
	var answer T
	err := g.do(ctx, false, func(ctx context.Context) error {
		return g.listing(ctx, func(ctx context.Context) error {
			var err error
			answer, err = send(ctx)
			return err
		})
	})
	if err == nil {
		g.brokeOff = false
		g.tell(listed, "", nil)
	}
	return answer, err
}

// sendWatch sends a WATCH.
type sendWatch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)

// watch sends a WATCH, and follows what it brings.
func (g *gate) watch(ctx context.Context, opts metav1.ListOptions, send sendWatch) (apiwatch.Interface, error) {
	streamedList := ptr.Deref(opts.SendInitialEvents, false)
	if streamedList && (g.plain || g.brokeOff) {
		// What a server answers that does not know streamed lists, and what makes
		// the reflector LIST.
		return nil, apierrors.NewBadRequest("lists are not streamed here")
	}
	var source apiwatch.Interface
	var initial *place
	err := g.do(ctx, streamedList, func(ctx context.Context) (err error) {
		if streamedList {
			if initial, err = g.lists.enter(ctx, g.silent); err != nil {
				return err
			}
		}
		if source, err = g.open(ctx, opts, send); err != nil {
			initial.leave()
		}
		return err
	})
	if err != nil {
		if source != nil {
			source.Stop() // it came as the watch ended
		}
		initial.leave()
		return nil, err
	}
	if !streamedList {
		g.tell(answered, "", nil)
	}
	return newStream(g, source, initial), nil
}

// open sends a WATCH, and gives up one that the API server does not begin to
// answer.
func (g *gate) open(ctx context.Context, opts metav1.ListOptions, send sendWatch) (apiwatch.Interface, error) {
	patience := listTimeout
	if ptr.Deref(opts.SendInitialEvents, false) {
		patience = streamTimeout
	}
	// The answer goes on for as long as ctx, so ctx must not end with the patience.
	ctx, cancel := context.WithCancelCause(ctx)
	giveUp := time.AfterFunc(patience, func() { cancel(errSilent) })
	heard := expectSoon(g.silent)
	source, err := send(ctx, opts)
	heard()
	if giveUp.Stop() && err == nil {
		return closing{Interface: source, cancel: cancel}, nil
	}
	if err == nil { // it came as the patience ended, which has ended it
		source.Stop()
	}
	if err == nil || errors.Is(context.Cause(ctx), errSilent) {
		err = fmt.Errorf("%w: it was given up after %s", errSilent, patience)
	}
	cancel(nil)
	return nil, err
}

// expectSoon calls silent after the time of silence, unless heard is called before.
// When heard returns, silent does not run.
func expectSoon(silent func()) (heard func()) {
	ran := make(chan struct{})
	timer := time.AfterFunc(silence, func() {
		defer close(ran)
		silent()
	})
	return func() {
		if !timer.Stop() {
			<-ran
		}
	}
}

// closing is a stream whose context ends with it.
type closing struct {
	apiwatch.Interface
	cancel context.CancelCauseFunc
}

func (c closing) Stop() {
	c.Interface.Stop()
	c.cancel(nil)
}
