package flux

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	fluxtar "github.com/fluxcd/pkg/tar"

	"github.com/vidra-operator/vidra/pkg/source"
)

// Bounds on an artifact.
const (
	// maxArchive is the size of an archive, and maxUnpacked of its files together.
	maxArchive  = 64 << 20
	maxUnpacked = 100 << 20
	// maxFiles is the number of files and directories of an archive, and maxDirs of directories in each other.
	maxFiles = 50_000
	maxDirs  = 32
	// fetchTimeout is the time for one artifact, and answerTimeout until the server begins to answer.
	fetchTimeout  = 30 * time.Second
	answerTimeout = 5 * time.Second
	maxRedirects  = 5
)

// NewClient returns the client that fetches artifacts from hosts. It follows a redirect only to the same host and port.
func NewClient(hosts Hosts) *http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           hosts.dial,
		TLSHandshakeTimeout:   answerTimeout,
		ResponseHeaderTimeout: answerTimeout,
		IdleConnTimeout:       answerTimeout,
		MaxIdleConnsPerHost:   1,
	}
	return &http.Client{
		Transport: allowed{hosts, transport},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
				return refusal("it redirects to another host, and only redirects to the same host are followed")
			}
			if len(via) > maxRedirects {
				return refusal("it redirects too often")
			}
			return nil
		},
	}
}

// allowed sends requests to the allowed hosts alone.
type allowed struct {
	hosts Hosts
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a allowed) RoundTrip(r *http.Request) (*http.Response, error) {
	if !a.hosts.Allows(r.URL) {
		return nil, refusal(fmt.Sprintf("the host %s is not one of those from which artifacts are fetched (%s): the administrators may add it to --artifact-hosts", r.URL.Host, a.hosts))
	}
	return a.next.RoundTrip(r)
}

// refusal is an error with a text of our own.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// classOf returns an error of a request without the parts of the answer that the libraries quote: the server may be any, as the URL may be forged.
func classOf(err error) error {
	var connection *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, new(refusal)), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return errors.New("its certificate is not valid for its name, or not signed by an authority that Vidra trusts")
	case errors.As(err, &connection):
		return connection
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("it does not answer in time")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closes the connection before the end of its answer")
	}
	return errors.New("its answer is no HTTP that Vidra understands")
}

// fetch unpacks an artifact into a directory. A file in it is to be read only if fetch succeeds.
func fetch(ctx context.Context, client *http.Client, artifact *meta.Artifact, dir string) error {
	sum, want, err := digestOf(artifact.Digest)
	if err != nil {
		return source.Invalid(err)
	}
	size := int64(-1)
	if artifact.Size != nil {
		if size = *artifact.Size; size > maxArchive {
			return source.Invalid(fmt.Errorf("the artifact has %d bytes, and the limit is %d: exclude files with spec.ignore of the source", size, maxArchive))
		}
	}
	u, err := url.Parse(artifact.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Host == "" {
		return source.Invalid(errors.New("status.artifact.url is no http or https URL"))
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return source.Invalid(errors.New("status.artifact.url is no http or https URL"))
	}
	request.Header.Set("Accept-Encoding", "identity")
	answer, err := client.Do(request)
	if err != nil {
		if failed, is := errors.AsType[*url.Error](err); is {
			err = failed.Err
		}
		return fmt.Errorf("fetch the artifact from %s: %w", u.Host, classOf(err))
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch the artifact from %s: the server answers %d", u.Host, answer.StatusCode)
	}
	body := &counted{from: io.TeeReader(answer.Body, sum), size: size}
	if err := unpack(body, dir); err != nil {
		if body.err != nil { // which unpack only reports
			return fmt.Errorf("fetch the artifact from %s: %w", u.Host, body.err)
		}
		if err = fmt.Errorf("the archive cannot be unpacked: %w", err); ofMachine(err) {
			return err
		}
		return source.Invalid(err)
	}
	switch _, err := io.Copy(io.Discard, body); { // bytes after the end of the archive count for the digest
	case err != nil:
		return fmt.Errorf("fetch the artifact from %s: %w", u.Host, err)
	case size >= 0 && body.read != size:
		return fmt.Errorf("the artifact has %d bytes, and status.artifact.size is %d: it is not the artifact of the source", body.read, size)
	case subtle.ConstantTimeCompare(sum.Sum(nil), want) != 1:
		return fmt.Errorf("the artifact does not have the digest %s: it is not the artifact of the source", artifact.Digest)
	}
	return nil
}

// digestOf returns the hash of a digest such as "sha256:..." and its value.
func digestOf(digest string) (hash.Hash, []byte, error) {
	algorithm, text, _ := strings.Cut(digest, ":")
	made := map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}[algorithm]
	if digest == "" {
		return nil, nil, errors.New("status.artifact.digest is empty")
	}
	if made == nil {
		return nil, nil, fmt.Errorf("digests of %q cannot be verified: let the source have digests of sha256, sha384 or sha512", algorithm)
	}
	sum := made()
	want, err := hex.DecodeString(text)
	if err != nil || len(want) != sum.Size() {
		return nil, nil, errors.New("status.artifact.digest is no " + algorithm)
	}
	return sum, want, nil
}

// counted reads at most size bytes, or maxArchive if that is negative.
type counted struct {
	from io.Reader
	size int64
	read int64
	// err is the error that ended the reads.
	err error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.from.Read(p)
	c.read += int64(n)
	switch {
	case c.size >= 0 && c.read > c.size:
		c.err = fmt.Errorf("the answer has more than the %d bytes of status.artifact.size: it is not the artifact of the source", c.size)
	case c.read > maxArchive:
		c.err = fmt.Errorf("the artifact has more than %d bytes: exclude files with spec.ignore of the source", maxArchive)
	case err != nil && !errors.Is(err, io.EOF):
		c.err = classOf(err)
	}
	if c.err != nil {
		return 0, c.err
	}
	return n, err
}

// unpack unpacks a compressed archive into a directory. Symbolic links are left out, as by Flux.
func unpack(from io.Reader, dir string) error {
	checked := &checked{from: from, dirs: map[string]bool{".": true}}
	err := fluxtar.Untar(checked, dir, fluxtar.WithMaxUntarSize(maxUnpacked), fluxtar.WithSkipSymlinks(), fluxtar.WithFilter(checked.filter))
	if checked.err != nil {
		return checked.err
	}
	if ofMachine(err) {
		return fmt.Errorf("store a file of it: %w", err)
	} else if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), dir+string(os.PathSeparator), ""))
	}
	return nil
}

// checked ends the reading of an archive when an entry of it is refused.
type checked struct {
	from    io.Reader
	entries int
	// dirs are the directories so far.
	dirs map[string]bool
	err  error
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return c.from.Read(p)
}

// filter reports whether an entry is left out.
func (c *checked) filter(name string, info os.FileInfo) bool {
	header, _ := info.Sys().(*tar.Header)
	c.entries++
	name = path.Clean(name)
	c.dirs[name] = c.dirs[name] || info.IsDir()
	for dir := path.Dir(name); !c.dirs[dir] && c.entries <= maxFiles; dir = path.Dir(dir) { // which are made for the entry
		c.dirs[dir] = true
		c.entries++
	}
	switch {
	case c.entries > maxFiles:
		c.err = fmt.Errorf("it has more than %d files and directories: exclude files with spec.ignore of the source", maxFiles)
	case strings.Count(name, "/") > maxDirs:
		c.err = fmt.Errorf("it has a file in more than %d directories: exclude it with spec.ignore of the source", maxDirs)
	case header != nil && header.Typeflag == tar.TypeLink:
		c.err = fmt.Errorf("%q is a hard link", name)
	}
	return c.err != nil
}
