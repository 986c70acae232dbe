package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxPageBytes is how much memory a page of a LIST may need when it is decoded, as jsonSize estimates it. It is less than a
// remote cluster may need, and more than one object does.
const maxPageBytes = 64 << 20

// ErrPageTooLarge is the error of a LIST with a context of InPages and a page of too many bytes: it has to be sent again with
// a smaller limit.
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

// Pages sends the LISTs of the pages of a list, one after the other, and calls visit with each page. limit is how many
// objects a page has at most; pages that are too large reduce it. The context of the LISTs must be one of InPages. A
// page that is too large with one object is an ErrPageTooLarge.
func Pages[L metav1.ListInterface](limit *int64, list func(metav1.ListOptions) (L, error), visit func(L) error) error {
	options := metav1.ListOptions{Limit: *limit}
	for {
		page, err := list(options)
		if errors.Is(err, ErrPageTooLarge) && options.Limit > 1 {
			options.Limit = max(1, options.Limit/4)
			*limit = options.Limit
			continue
		}
		if err != nil {
			return err
		}
		if err := visit(page); err != nil {
			return err
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
