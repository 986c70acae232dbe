package watchregistry

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

const (
	// maxConcurrentPages is how many pages of lists of one cluster are read at a time.
	maxConcurrentPages = 3
	// pageLimit is how many objects a page has at most.
	pageLimit = 250
)

// sendList sends a LIST.
type sendList func(context.Context, metav1.ListOptions) (runtime.Object, error)

// watchPages returns a stream like the stream of a server that streams lists: it begins with the objects of all pages of a
// LIST, and continues with a WATCH. So one page is in memory at a time. The first page is retried like every request. A later
// one that fails ends the stream.
func (g *retryingClient) watchPages(ctx context.Context, opts metav1.ListOptions, watch sendWatch, list sendList) (apiwatch.Interface, error) {
	if g.lists.pageLimit == 0 {
		g.lists.pageLimit = pageLimit
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pagedWatch{
		client: g, ctx: ctx, cancel: cancel, limit: g.lists.pageLimit, events: make(chan apiwatch.Event), done: make(chan struct{}),
		selectors: metav1.ListOptions{LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector}, timeout: opts.TimeoutSeconds,
		watch: watch, list: list,
	}
	onListed := g.beginList(true)
	var slot *listSlot
	err := g.do(ctx, false, func(ctx context.Context) (err error) {
		if slot, err = g.listLimiter.acquire(ctx, g.reportSilence); err != nil {
			return err
		}
		if p.first, err = p.page(ctx, ""); err != nil {
			slot.release()
		}
		return err
	})
	g.lists.pageLimit = p.limit
	if err != nil {
		cancel()
		slot.release()
		return nil, err
	}
	g.lists.interrupted = false
	go p.run()
	return newStream(g, p, slot, onListed), nil
}

// pagedWatch is the source of the stream of watchPages.
type pagedWatch struct {
	client *retryingClient
	ctx    context.Context
	cancel context.CancelFunc
	// limit is how many objects a page has at most.
	limit     int64
	selectors metav1.ListOptions
	timeout   *int64
	watch     sendWatch
	list      sendList
	// first is the first page.
	first  runtime.Object
	events chan apiwatch.Event
	// done is closed when run has ended.
	done chan struct{}
}

// ResultChan implements watch.Interface.
func (p *pagedWatch) ResultChan() <-chan apiwatch.Event { return p.events }

// Stop implements watch.Interface. It waits for the goroutine.
func (p *pagedWatch) Stop() {
	p.cancel()
	<-p.done
}

// page sends the LIST of a page. It reduces the limit while pages are too large.
func (p *pagedWatch) page(ctx context.Context, token string) (runtime.Object, error) {
	if err := p.client.pages.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.client.pages.Release(1)
	ctx, cancel := context.WithTimeoutCause(cluster.InformerPages(ctx), listTimeout, errNoAnswer)
	defer cancel()
	for {
		opts := p.selectors
		opts.Limit, opts.Continue = p.limit, token
		page, err := p.list(ctx, opts)
		if !errors.Is(err, cluster.ErrPageTooLarge) || p.limit == 1 {
			return page, err
		}
		p.limit = max(1, p.limit/4)
	}
}

// run sends the events until the WATCH or ctx ends.
func (p *pagedWatch) run() {
	defer close(p.done)
	defer close(p.events)
	version, err := p.sendPages()
	if err != nil {
		p.send(errorEvent(err))
		return
	}
	opts := p.selectors
	opts.ResourceVersion, opts.AllowWatchBookmarks, opts.TimeoutSeconds = version, true, p.timeout
	source, err := p.client.open(p.ctx, opts, p.watch)
	if err != nil {
		p.send(errorEvent(err))
		return
	}
	defer source.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case e, open := <-source.ResultChan():
			if !open || !p.send(e) {
				return
			}
		}
	}
}

// sendPages sends the objects of all pages, and the bookmark that ends them. It returns the version of the list.
func (p *pagedWatch) sendPages() (version string, err error) {
	for page := p.first; ; {
		list, err := meta.ListAccessor(page)
		if err != nil {
			return "", err
		}
		err = meta.EachListItem(page, func(obj runtime.Object) error {
			if !p.send(apiwatch.Event{Type: apiwatch.Added, Object: obj}) {
				return context.Canceled
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		if version = list.GetResourceVersion(); list.GetContinue() == "" {
			break
		}
		if page, err = p.page(p.ctx, list.GetContinue()); err != nil {
			return "", err
		}
	}
	// An informer takes objects of one type.
	var end interface {
		runtime.Object
		metav1.Object
	} = &metav1.PartialObjectMetadata{}
	if _, whole := p.first.(*unstructured.UnstructuredList); whole {
		end = &unstructured.Unstructured{Object: map[string]any{}}
	}
	p.first = nil
	end.SetResourceVersion(version)
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	if !p.send(apiwatch.Event{Type: apiwatch.Bookmark, Object: end}) {
		return "", context.Canceled
	}
	return version, nil
}

// send passes an event on. It reports whether the stream continues.
func (p *pagedWatch) send(e apiwatch.Event) bool {
	select {
	case <-p.ctx.Done():
		return false
	case p.events <- e:
		return true
	}
}

// errorEvent returns the event of a failed request: the answer of the API server, or 503 without one.
func errorEvent(err error) apiwatch.Event {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: err.Error(),
	}
	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) {
		status = answer.Status()
	}
	return apiwatch.Event{Type: apiwatch.Error, Object: &status}
}
