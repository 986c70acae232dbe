package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxPageBytes is how much memory a page of a LIST may need when it is decoded, as jsonSize estimates it. It is less than a
// remote cluster may need, and more than one object does.
const maxPageBytes = 64 << 20

// ErrPageTooLarge is the error of a LIST with a context of InPages, of which a page has too many bytes: it has to be asked
// for with a smaller limit.
var ErrPageTooLarge = fmt.Errorf("a page of a list needs more than %d MiB of memory", maxPageBytes>>20)

// pageTransport bounds the pages of LISTs with a context of InPages.
type pageTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p pageTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(r)
	if err == nil && r.Context().Value(inPages{}) != nil {
		response.Body = &pageBody{ReadCloser: response.Body}
	}
	return response, err
}

// pageBody is the body of a page.
type pageBody struct {
	io.ReadCloser
	size jsonSize
}

// Read implements io.Reader.
func (b *pageBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size.add(p[:n])
	if b.size.total > maxPageBytes && (err == nil || errors.Is(err, io.EOF)) {
		return 0, ErrPageTooLarge
	}
	return n, err //nolint:wrapcheck // a reader wraps no error of the one below it
}
