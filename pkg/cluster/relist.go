package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// longOutage is how long requests fail without an answer until every informer lists its objects again.
	longOutage = 3 * time.Second
	// forgetStream is how long the state of a closed WATCH is kept. No informer pauses as long between two requests.
	forgetStream = 15 * time.Minute
	// versionTimeout bounds the request for the version of the API server.
	versionTimeout = 15 * time.Second
)

// Relister has informers list their objects again where a WATCH could miss changes: after an outage, after other
// credentials, and where the API server has lower versions than before, because its etcd was restored. A WATCH from
// a version of the time before would wait for versions that do not come, or begin after changes. It is answered
// with 410 then, after which an informer lists. The Relister is for one API server. It is safe for concurrent use.
type Relister struct {
	// mu guards the fields below.
	mu sync.Mutex
	// epoch counts the times that all informers have to list again.
	epoch uint64
	// failedFirst and failedLast are the times of the first and last of consecutive requests without an answer.
	failedFirst, failedLast time.Time
	streams                 map[string]*informerStream
}

// informerStream is the state of the WATCHes of one informer.
type informerStream struct {
	// epoch is the epoch of the last LIST of an informer; 0 without one.
	epoch uint64
	// doubted reports that a request has failed since, so that the API server may have been restored.
	doubted bool
	// open are the bodies of the open WATCHes.
	open map[*watchBody]struct{}
	used time.Time
}

// NewRelister returns a Relister. It starts no goroutine.
func NewRelister() *Relister { return &Relister{epoch: 1, streams: map[string]*informerStream{}} }

// Wrap returns a transport whose informers the Relister has list again.
func (r *Relister) Wrap(next http.RoundTripper) http.RoundTripper { return relistTransport{r, next} }

// Watches reports an open WATCH of whole objects at a path, which may have a prefix.
func (r *Relister) Watches(path, labelSelector string) bool {
	wanted := informerKeyOf(path, labelSelector, "", wholeObjects)
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.streams {
		if len(s.open) > 0 && strings.HasSuffix(key, wanted) {
			return true
		}
	}
	return false
}

// ListAgain ends every WATCH, after which each informer lists its objects.
func (r *Relister) ListAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listAgainLocked()
}

func (r *Relister) listAgainLocked() {
	r.epoch++
	for _, s := range r.streams {
		for body := range s.open {
			body.cut()
		}
	}
}

// answered records whether a request was answered.
func (r *Relister) answered(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := time.Now(); {
	case !is:
		for _, s := range r.streams {
			s.doubted = true
		}
		if r.failedLast = now; r.failedFirst.IsZero() {
			r.failedFirst = now
		}
	case r.failedLast.Sub(r.failedFirst) >= longOutage:
		r.listAgainLocked()
		fallthrough
	default:
		r.failedFirst, r.failedLast = time.Time{}, time.Time{}
	}
}

// streamLocked returns the state of an informer, which it adds if necessary. r.mu must be held.
func (r *Relister) streamLocked(key string) *informerStream {
	s := r.streams[key]
	if s == nil {
		maps.DeleteFunc(r.streams, func(_ string, s *informerStream) bool { return len(s.open) == 0 && time.Since(s.used) > forgetStream })
		s = &informerStream{open: map[*watchBody]struct{}{}}
		r.streams[key] = s
	}
	s.used = time.Now()
	return s
}

// of returns the state of an informer, its epoch and the present one.
func (r *Relister) of(key string) (doubted bool, listed, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.streams[key]; s != nil {
		return s.doubted, s.epoch, r.epoch
	}
	return false, 0, r.epoch
}

// listed records that an informer has sent a LIST in an epoch.
func (r *Relister) listed(key string, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streamLocked(key)
	s.epoch, s.doubted = epoch, false
}

// doubt records whether the WATCH of an informer may have to begin from another version.
func (r *Relister) doubt(key string, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamLocked(key).doubted = is
}

// relistTransport is the transport of a Relister.
type relistTransport struct {
	relister *Relister
	next     http.RoundTripper
}

// WrappedRoundTripper returns the transport below. It implements net.RoundTripperWrapper.
func (t relistTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t relistTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	lists, watches := informerRequest(request)
	if !lists && !watches {
		return t.send(request)
	}
	key := informerKey(request)
	doubted, listed, epoch := t.relister.of(key)
	switch version := request.URL.Query().Get("resourceVersion"); {
	case lists && listed != 0 && listed != epoch:
		request = withoutVersion(request) // a version of the time before says nothing
	case lists || version == "" || version == "0":
	case listed == 0: // the WATCH of another client, whose LIST was as new as etcd
	case listed != epoch:
		return expired(request)
	case doubted:
		if response, err := t.check(request, version); response != nil || err != nil {
			return response, err
		}
		t.relister.doubt(key, false)
	}
	if !watches {
		response, err := t.send(request)
		if err == nil && response.StatusCode == http.StatusOK {
			t.relister.listed(key, epoch)
		}
		return response, err
	}
	return t.watch(request, key, lists, epoch)
}

// send sends a request and records whether it was answered.
func (t relistTransport) send(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if request.Context().Err() == nil {
		t.relister.answered(err == nil)
	}
	return response, err
}

// watch sends a WATCH, which begins with a LIST or not.
func (t relistTransport) watch(request *http.Request, key string, lists bool, epoch uint64) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	response, err := t.send(request.WithContext(ctx))
	switch {
	case err != nil:
		cancel()
		if request.Context().Err() == nil {
			t.relister.doubt(key, true)
		}
		return nil, err
	case response.StatusCode != http.StatusOK:
		if response.StatusCode >= http.StatusInternalServerError {
			t.relister.doubt(key, true)
		}
		response.Body = &canceledBody{response.Body, cancel}
		return response, nil
	case lists:
		t.relister.listed(key, epoch)
	}
	body := &watchBody{ReadCloser: response.Body, cancel: cancel, key: key, of: t.relister}
	t.relister.open(body, epoch)
	response.Body = body
	return response, nil
}

// open records an open WATCH, and ends it if all informers have to list again since it was sent.
func (r *Relister) open(body *watchBody, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamLocked(body.key).open[body] = struct{}{}
	if r.epoch != epoch {
		body.cut()
	}
}

// closed records the end of a WATCH. broken reports that the API server did not end it.
func (r *Relister) closed(body *watchBody, broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streamLocked(body.key)
	delete(s.open, body)
	s.doubted = s.doubted || broken
}

// check compares the version of the API server with the first version of a WATCH. It returns the answer to the WATCH, unless
// the WATCH may be sent.
func (t relistTransport) check(watch *http.Request, version string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(InPages(watch.Context()), versionTimeout)
	defer cancel()
	query := url.Values{"limit": {"1"}}
	if names := watch.URL.Query().Get("fieldSelector"); names != "" { // it may have no rights beyond
		query.Set("fieldSelector", names)
	}
	request := watch.Clone(ctx)
	request.URL.RawQuery = query.Encode()
	request.Header.Set("Accept", "application/json")
	response, err := t.send(request)
	if err != nil {
		return nil, err
	}
	text, err := readAll(response)
	response.Body = io.NopCloser(bytes.NewReader(text))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK: // the version is not known yet; an API server that starts knows no rights at first
		return response, nil
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(text, &list) != nil {
		return nil, nil //nolint:nilnil // the WATCH may say more
	}
	if !Older(list.Metadata.ResourceVersion, version) {
		return nil, nil //nolint:nilnil // versions without an order are all there is
	}
	t.relister.ListAgain()
	return expired(watch)
}

// informerRequest reports whether a request is the LIST or the WATCH of an informer, or both at once.
func informerRequest(request *http.Request) (lists, watches bool) {
	if !isListOrWatch(request) {
		return false, false
	}
	query := request.URL.Query()
	if watches = isWatch(request); watches {
		return query.Get("sendInitialEvents") == "true", true
	}
	// Other callers send no version.
	return query.Get("continue") == "" && (query.Has("resourceVersion") || request.Context().Value(inPages{}) == informerPages), false
}

// informerKey identifies the informer that sends a request.
func informerKey(request *http.Request) string {
	query, form := request.URL.Query(), wholeObjects
	if strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata") {
		form = "metadata"
	}
	return informerKeyOf(request.URL.Path, query.Get("labelSelector"), query.Get("fieldSelector"), form)
}

// wholeObjects is the form of an informer of whole objects, beside the form of metadata.
const wholeObjects = "object"

func informerKeyOf(path, labelSelector, fieldSelector, form string) string {
	return strings.Join([]string{path, labelSelector, fieldSelector, form}, "\x00")
}

// withoutVersion returns a LIST whose answer is as new as etcd.
func withoutVersion(request *http.Request) *http.Request {
	query := request.URL.Query()
	query.Del("resourceVersion")
	if !isWatch(request) {
		query.Del("resourceVersionMatch")
	}
	request = request.Clone(request.Context())
	request.URL.RawQuery = query.Encode()
	return request
}

// expired returns the answer to a WATCH whose version has expired.
func expired(request *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("all objects are listed again, because the API server was away, was restored or was replaced").Status()
	status.APIVersion, status.Kind = "v1", "Status"
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)), Request: request,
	}, nil
}

// watchBody is the body of a WATCH.
type watchBody struct {
	io.ReadCloser
	cancel context.CancelFunc
	key    string
	of     *Relister

	// mu guards the fields below.
	mu sync.Mutex
	// isCut reports that the Relister ended the WATCH, broken that a read has failed.
	isCut, broken bool
}

// cut ends the WATCH in order.
func (b *watchBody) cut() {
	b.mu.Lock()
	b.isCut = true
	b.mu.Unlock()
	b.cancel()
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isCut {
		return 0, io.EOF
	}
	b.broken = true
	return n, err
}

// Close implements io.Closer. A read that is running ends.
func (b *watchBody) Close() error {
	b.mu.Lock()
	broken := b.broken
	b.mu.Unlock()
	b.of.closed(b, broken)
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// canceledBody is a body that cancels its request when it is closed.
type canceledBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *canceledBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// Older reports whether a resourceVersion is lower than another one of the same resource. It is false for versions without an order. A later read
// with an older version is the sign that etcd was restored from a backup.
func Older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
