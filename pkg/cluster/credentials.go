package cluster

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// WithoutCredentials returns a transport that withholds the credentials of a request from refusals, warnings and errors: an API server, or a proxy before it,
// may repeat a request, and statuses, Events, the log and commands quote its answer. It is a rest.Config's WrapTransport, which gets the requests with their
// credentials.
func WithoutCredentials(next http.RoundTripper) http.RoundTripper {
	return &credentialsTransport{next: next}
}

type credentialsTransport struct {
	next http.RoundTripper
	// last are the credentials of the last answer with any: many requests have the same ones.
	last atomic.Pointer[requestCredentials]
}

// requestCredentials are the credentials in the header Authorization of a request.
type requestCredentials struct {
	header      string
	credentials display.Credentials
}

// WrappedRoundTripper returns the transport below. It implements net.RoundTripperWrapper.
func (t *credentialsTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *credentialsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return response, withoutCredentials(err, t.credentialsIn(r))
	}
	warnings, refused := response.Header.Values("Warning"), response.StatusCode >= http.StatusMultipleChoices
	if len(warnings) == 0 && !refused {
		return response, nil
	}
	credentials := t.credentialsIn(r)
	for i, warning := range warnings {
		warnings[i] = credentials.Withhold(warning)
	}
	if refused && credentials.Longest > 0 {
		response.Body = &withheldBody{ReadCloser: response.Body, credentials: credentials}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
	}
	return response, nil
}

// withoutCredentials returns an error without credentials. net/http quotes an answer that it does not understand.
func withoutCredentials(err error, credentials display.Credentials) error {
	if text := credentials.Withhold(err.Error()); text != err.Error() {
		return display.WithText(err, text)
	}
	return err
}

// credentialsIn returns the credentials in the header of a request.
func (t *credentialsTransport) credentialsIn(r *http.Request) display.Credentials {
	header := r.Header.Get("Authorization")
	if last := t.last.Load(); last != nil && last.header == header {
		return last.credentials
	}
	scheme, value, _ := strings.Cut(header, " ")
	all := []string{value}
	if login, err := base64.StdEncoding.DecodeString(value); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(login), ":")
		all = append(all, password)
	}
	found := &requestCredentials{header: header, credentials: display.NewCredentials(all...)}
	t.last.Store(found)
	return found.credentials
}

// withheldBody is a body without credentials.
type withheldBody struct {
	io.ReadCloser
	credentials display.Credentials
	// ready is text without credentials, and held the text after it, which may end with the begin of one.
	ready, held string
	// err is the end of the body.
	err error
}

// Read implements io.Reader.
func (b *withheldBody) Read(p []byte) (int, error) {
	for b.ready == "" && b.err == nil {
		chunk := make([]byte, 8<<10)
		n, err := b.ReadCloser.Read(chunk)
		text, keep := b.credentials.Withhold(b.held+string(chunk[:n])), b.credentials.Longest-1
		if b.err = err; err != nil {
			keep = 0
		}
		end := max(0, len(text)-keep)
		b.ready, b.held = text[:end], text[end:]
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	if b.ready == "" && b.err != nil {
		return n, b.err
	}
	return n, nil
}
