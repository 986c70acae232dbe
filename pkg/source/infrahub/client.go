package infrahub

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

const (
	// DefaultTimeout bounds a request with its answer.
	DefaultTimeout = 30 * time.Second
	// MaxArtifactBytes is the size limit of an artifact: a VidraResource has no room for more.
	MaxArtifactBytes = 1_400_000
	// maxListBytes and maxErrorBytes are the limits of the other answers.
	maxListBytes  = 16 << 20
	maxErrorBytes = 64 << 10
	// maxHeaderBytes is the limit of the headers of an answer.
	maxHeaderBytes = 64 << 10
)

// Credentials of an account in Infrahub are a token, or a username and a password.
type Credentials struct {
	Username, Password, Token string
}

// Options configure a Client. URL and Credentials are required.
type Options struct {
	// URL of the server.
	URL         string
	Credentials Credentials
	// CA has certificates in PEM that the client trusts in addition to the certificates of the system.
	CA []byte
	// Timeout bounds each request. Defaults to DefaultTimeout.
	Timeout time.Duration
	// UserAgent is the header User-Agent.
	UserAgent string
	// Sent is called after each request: login, query or artifact, and the reason of its error, empty on success.
	Sent func(request, reason string)
}

// Client sends requests to one Infrahub server as one account. It keeps the token of a login until the server refuses it.
// It is safe for concurrent use.
type Client struct {
	options Options
	base    *url.URL
	http    *http.Client

	// logins has the place of the only login at a time.
	logins chan struct{}
	// mu guards the fields below.
	mu sync.Mutex
	// token comes from the last login.
	token string
	// get means that the server refuses the query with POST, and accepts GET.
	get bool
}

// New returns a Client. It sends no request.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(o.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return nil, &Error{Reason: v1alpha1.SyncReasonSpecInvalid, Message: "spec.source.infrahubAPIURL is no URL with http or https and a host"}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(o.CA) > 0 && !roots.AppendCertsFromPEM(o.CA) {
		return nil, &Error{Reason: v1alpha1.SyncReasonCredentialsMissing, Message: "the key ca.crt has no certificate in PEM"}
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Sent == nil {
		o.Sent = func(string, string) {}
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: refuseLinkLocal}
	return &Client{
		options: o, base: base, logins: make(chan struct{}, 1),
		http: &http.Client{
			Timeout: o.Timeout,
			// A redirect could take the credentials to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
				TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: o.Timeout,
				MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: maxHeaderBytes,
				ForceAttemptHTTP2: true,
			},
		},
	}, nil
}

// refuseLinkLocal refuses connections to link-local addresses, the addresses of the metadata services of clouds.
func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsMulticast() || ip.IsUnspecified()) {
		return errors.New("a link-local address is no Infrahub server")
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Query is which artifacts are listed.
type Query struct {
	// Name of the query that is stored in Infrahub.
	Name string
	// ArtifactName is the variable artifactname of the query.
	ArtifactName string
	// Branch and At are the branch, and the time in RFC 3339; now if empty.
	Branch, At string
}

// readings bounds how often a list in several pages is read.
const readings = 4

// errChanged is the error of pages that are of different lists.
var errChanged = errors.New("the list changed between its pages")

// Artifacts lists the artifacts of a query: all of them, or it fails. A list in several pages needs two readings in a row with the same
// artifacts: then each of them existed at the end of the first reading, and the count of its last page leaves no room for others. A time that
// is sent with the query is no substitute: the server may ignore it or be past it, and by a clock that is slow younger artifacts look gone.
func (c *Client) Artifacts(ctx context.Context, q Query) ([]Artifact, error) {
	var before []string
	for range readings {
		all, ids, err := c.reading(ctx, q)
		switch {
		case errors.Is(err, errChanged):
			before = nil
		case err != nil:
			return nil, err
		case ids == nil || slices.Equal(ids, before):
			return all, nil
		default:
			before = ids
		}
	}
	return nil, invalid("query "+q.Name, c.base, fmt.Sprintf(
		"the list changed between its pages, in each of %d attempts: Vidra reads it again; if that lasts, remove the limit of the query, or have it use $offset and a fixed order", readings))
}

// reading reads all pages of a list once. ids are those of the pages, in their order; nil for a list in one page.
func (c *Client) reading(ctx context.Context, q Query) (all []Artifact, ids []string, err error) {
	p, err := c.page(ctx, q, 0)
	if err != nil || p.count <= len(p.artifacts) {
		return merge(nil, p.artifacts), nil, err
	}
	count, last := p.count, []Artifact(nil)
	for {
		before := len(all)
		all = merge(all, p.artifacts)
		for _, a := range p.artifacts {
			ids = append(ids, a.ID)
		}
		known := len(merge(nil, p.artifacts)) - (len(all) - before) // artifacts of earlier pages
		switch {
		case p.count != count:
			return nil, nil, errChanged
		case len(p.artifacts) == 0 || slices.Equal(p.artifacts, last):
			return nil, nil, invalid("query "+q.Name, c.base, fmt.Sprintf(
				"the answer has %d of %d artifacts: remove the limit of the query, or give it the variable $offset", len(all), count))
		case known > 0 || len(ids) > count:
			return nil, nil, errChanged
		case len(all) > MaxArtifacts:
			return nil, nil, invalid("query "+q.Name, c.base, fmt.Sprintf("the server lists more than %d artifacts: use several artifact definitions", MaxArtifacts))
		case len(ids) == count:
			return all, ids, nil
		}
		last = p.artifacts
		if p, err = c.page(ctx, q, len(ids)); err != nil {
			return nil, nil, err
		}
	}
}

// refusesPost has the answers of servers that refuse the query with POST: for accounts that may only read, and for versions
// without it.
var refusesPost = map[int]bool{
	http.StatusForbidden: true, http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusUnsupportedMediaType: true, http.StatusNotImplemented: true,
}

// page reads one page of the list. It sends the query with POST, and with GET where POST is refused.
func (c *Client) page(ctx context.Context, q Query, offset int) (page, error) {
	variables := map[string]any{"artifactname": q.ArtifactName}
	if offset > 0 {
		variables["offset"] = offset
	}
	body, err := json.Marshal(map[string]any{"variables": variables})
	if err != nil {
		return page{}, err
	}
	c.mu.Lock()
	get := c.get
	c.mu.Unlock()
	post := request{kind: "query", what: "query " + q.Name, method: http.MethodPost, path: []string{"api", "query", q.Name}, query: q.params(), body: body, limit: maxListBytes, verified: true}
	var got answer
	var refused error
	if !get {
		got, refused = c.do(ctx, post)
		err, get = refused, refusesPost[statusOf(refused)]
	}
	if get {
		fallback := post
		fallback.method, fallback.body = http.MethodGet, nil
		fallback.query.Set("artifactname", q.ArtifactName)
		if offset > 0 {
			fallback.query.Set("offset", strconv.Itoa(offset))
		}
		got, err = c.do(ctx, fallback)
		c.mu.Lock()
		c.get = err == nil
		c.mu.Unlock()
		if refused != nil && refusesPost[statusOf(err)] {
			err = refused // neither is accepted: the first answer has the reason
		}
	}
	if err != nil {
		return page{}, err
	}
	if messages := messagesOf(got.body, got.redact); messages != "" { // data beside errors is not complete
		return page{}, &Error{Reason: v1alpha1.SyncReasonQueryFailed, Message: fmt.Sprintf(
			"query %s at %s failed: %s: check the query in Infrahub", q.Name, origin(c.base), messages)}
	}
	p, err := parsePage(got.body)
	if err != nil {
		return page{}, invalid("query "+q.Name, c.base, err.Error())
	}
	return p, nil
}

// params are the parameters of the URLs.
func (q Query) params() url.Values {
	values := url.Values{"branch": {q.Branch}, "update_group": {"false"}}
	if q.At != "" {
		values.Set("at", q.At)
	}
	return values
}

// Content reads the content of an artifact: by its storage id, which no later content has, or else by its id. It compares
// the checksum. contentType is the content type that the server states, if any.
func (c *Client) Content(ctx context.Context, a Artifact, branch, at string) (content []byte, contentType string, err error) {
	var got answer
	sum, _ := hashOf(a.Checksum)
	r := request{kind: "artifact", what: "artifact " + a.ID, method: http.MethodGet, limit: MaxArtifactBytes, verified: sum != nil}
	if a.StorageID != "" {
		r.path = []string{"api", "storage", "object", a.StorageID}
		got, err = c.do(ctx, r)
	}
	if status := statusOf(err); a.StorageID == "" || status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		r.path, r.query = []string{"api", "artifact", a.ID}, Query{Branch: branch, At: at}.params()
		r.query.Del("update_group")
		got, err = c.do(ctx, r)
	}
	if err != nil {
		return nil, "", err
	}
	if looksLikeHTML(got.body) {
		return nil, "", invalid("artifact "+a.ID, c.base, "the answer is an HTML page, of a proxy or a login: check spec.source.infrahubAPIURL")
	}
	if err := Verify(got.body, a.Checksum); err != nil {
		return nil, "", invalid("artifact "+a.ID, c.base, err.Error())
	}
	return got.body, got.contentType, nil
}

// request is a request with credentials.
type request struct {
	// kind is login, query or artifact, and what names the request in messages.
	kind, what string
	method     string
	// path are the segments of the path after the URL.
	path  []string
	query url.Values
	body  []byte
	// limit is how many bytes the answer may have.
	limit int64
	// verified means that the answer shows by itself that it is complete: it is JSON, or has a checksum.
	verified bool
}

// answer is an answer to a request.
type answer struct {
	body        []byte
	contentType string
	// redact removes the credentials of the request from text of the answer.
	redact func(string) string
}

// do sends a request. If the server refuses the token of a login, it logs in once more.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	token, err := c.login(ctx, "")
	if err != nil {
		return answer{}, err
	}
	got, err := c.send(ctx, r, token)
	if statusOf(err) == http.StatusUnauthorized && c.options.Credentials.Token == "" {
		if token, err = c.login(ctx, token); err != nil {
			return answer{}, err
		}
		got, err = c.send(ctx, r, token)
	}
	return got, err
}

// login returns the token of a login other than refused. It is empty for credentials that are a token.
func (c *Client) login(ctx context.Context, refused string) (string, error) {
	if c.options.Credentials.Token != "" {
		return "", nil
	}
	select { // one login at a time
	case c.logins <- struct{}{}:
		defer func() { <-c.logins }()
	case <-ctx.Done():
		return "", transportError("login", c.base, ctx.Err(), c.redacting(""))
	}
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	if token != "" && token != refused {
		return token, nil
	}
	body, err := json.Marshal(map[string]string{"username": c.options.Credentials.Username, "password": c.options.Credentials.Password})
	if err != nil {
		return "", err
	}
	answered, err := c.send(ctx, request{kind: "login", what: "login", method: http.MethodPost, path: []string{"api", "auth", "login"}, body: body, limit: maxErrorBytes, verified: true}, "")
	if err != nil {
		return "", err
	}
	var got struct {
		Token string `json:"access_token"`
	}
	if json.Unmarshal(answered.body, &got) != nil || got.Token == "" || strings.ContainsAny(got.Token, "\r\n\x00") {
		return "", invalid("login", c.base, "the answer has no access_token: check that spec.source.infrahubAPIURL is the URL of an Infrahub server")
	}
	c.mu.Lock()
	c.token = got.Token
	c.mu.Unlock()
	return got.Token, nil
}

// send sends one request and reads the answer.
func (c *Client) send(ctx context.Context, r request, token string) (_ answer, err error) {
	defer func() {
		reason := ""
		if e, is := errors.AsType[*Error](err); is {
			reason = e.Reason
		}
		c.options.Sent(r.kind, reason)
	}()
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	redact := c.redacting(token)
	to := c.base.JoinPath(escaped(r.path)...)
	to.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, to.String(), bytes.NewReader(r.body))
	if err != nil {
		return answer{}, transportError(r.what, c.base, err, redact)
	}
	c.setHeaders(req, r, token)
	response, err := c.http.Do(req)
	if err != nil {
		return answer{}, transportError(r.what, c.base, err, redact)
	}
	defer func() { _ = response.Body.Close() }() // it is read, or not needed
	limit := r.limit
	if response.StatusCode != http.StatusOK {
		limit = maxErrorBytes
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case response.StatusCode != http.StatusOK:
		return answer{}, statusError(r.what, c.base, response, body, time.Now(), redact)
	case err != nil && ctx.Err() != nil:
		return answer{}, transportError(r.what, c.base, ctx.Err(), redact)
	case err != nil:
		return answer{}, invalid(r.what, c.base, "the answer ends early: see the server and the proxies before it")
	case int64(len(body)) > limit:
		e := invalid(r.what, c.base, fmt.Sprintf("the answer has more than %d bytes, which is the limit", limit))
		e.TooLarge = true
		return answer{}, e
	case endUnknown(response) && !r.verified:
		return answer{}, invalid(r.what, c.base, "the answer has neither a length nor a checksum, and may be half of it: have the query return checksum, or see the proxies before the server")
	}
	return answer{body: body, contentType: response.Header.Get("Content-Type"), redact: redact}, nil
}

// endUnknown reports whether the end of the connection is the end of the answer, so that one that is cut off looks complete.
func endUnknown(r *http.Response) bool {
	return r.ProtoMajor < 2 && r.ContentLength < 0 && len(r.TransferEncoding) == 0 && !r.Uncompressed
}

// setHeaders sets the headers of a request, with the credentials.
func (c *Client) setHeaders(req *http.Request, r request, token string) {
	if r.kind != "artifact" {
		req.Header.Set("Accept", "application/json")
	}
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.options.UserAgent != "" {
		req.Header.Set("User-Agent", c.options.UserAgent)
	}
	switch {
	case token != "":
		req.Header.Set("Authorization", "Bearer "+token)
	case c.options.Credentials.Token != "":
		req.Header.Set("X-INFRAHUB-KEY", c.options.Credentials.Token)
	}
}

// escaped returns segments of a path, each escaped to stay one segment.
func escaped(segments []string) []string {
	all := make([]string, 0, len(segments))
	for _, s := range segments {
		if s == "." || s == ".." {
			s = strings.ReplaceAll(s, ".", "%2E")
		} else {
			s = url.PathEscape(s)
		}
		all = append(all, s)
	}
	return all
}

// redacting returns a function that removes the credentials of a request from text of the server, which may repeat the request. token is the token of a login
// in the request: the client may have a newer one.
func (c *Client) redacting(token string) func(string) string {
	return func(text string) string {
		return display.NewCredentials(token, c.options.Credentials.Token, c.options.Credentials.Password).Withhold(text)
	}
}
