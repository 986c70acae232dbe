package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// MaxBytes is the size of the longest text that is read from a URL, as the parts of a manifest have it together.
const MaxBytes = 8 << 20

// urlTimeout is how long the read of a URL takes at most.
const urlTimeout = time.Minute

// isURL reports whether a path is the URL of a HTTP server.
func isURL(path string) bool {
	return strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://")
}

// get reads the text of a URL.
func (r Reader) get(ctx context.Context, address string) (insight.File, error) {
	at, err := url.Parse(address)
	if err != nil {
		return insight.File{}, errors.New("the URL after -f cannot be parsed: want such as https://example.com/install.yaml") // the error may quote a password
	}
	f := insight.File{Name: (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()}
	ctx, cancel := context.WithTimeout(ctx, urlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return f, fmt.Errorf("read %s: the URL is invalid", f.Name)
	}
	response, err := (&http.Client{Transport: r.Transport}).Do(request)
	if err != nil {
		if failed, is := errors.AsType[*url.Error](err); is {
			err = failed.Err // it has the URL with its query
		}
		return f, fmt.Errorf("read %s: %w", f.Name, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	if response.StatusCode != http.StatusOK {
		return f, fmt.Errorf("read %s: the server answered %s: check the address, and that it needs no login", f.Name, response.Status)
	}
	if media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); media == "text/html" {
		return f, fmt.Errorf("read %s: it is a web page, not a manifest: use the address of the file itself, such as the raw one", f.Name)
	}
	into := &strings.Builder{}
	to := io.Writer(into)
	if r.Progress != nil {
		to = io.MultiWriter(into, r.Progress(f.Name, response.ContentLength))
	}
	n, err := io.Copy(to, io.LimitReader(response.Body, MaxBytes+1))
	switch {
	case err != nil:
		return f, fmt.Errorf("read %s: %w", f.Name, err)
	case n > MaxBytes:
		return f, fmt.Errorf("read %s: it has more than %d bytes, which is the limit of a manifest", f.Name, MaxBytes)
	}
	f.Text = into.String()
	return f, nil
}
