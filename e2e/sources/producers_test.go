package sources

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"encoding/hex"
	"encoding/xml"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// gitServer serves a repository over HTTP with git itself.
type gitServer struct {
	url  string
	work string
}

func newGitServer(t *testing.T) *gitServer {
	t.Helper()
	root := t.TempDir()
	g := &gitServer{work: filepath.Join(root, "work")}
	git(t, root, "init", "--quiet", "--bare", "--initial-branch=main", "app.git")
	git(t, root, "clone", "--quiet", "app.git", "work")
	git(t, g.work, "checkout", "--quiet", "-B", "main")
	programs, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	g.url = suite.Serve(t, &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"), Root: "/", Logger: log.New(io.Discard, "", 0),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"}, Stderr: io.Discard,
	}).URL + "/app.git"
	return g
}

// git runs git in a directory, and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	text, err := c.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, text)
	return strings.TrimSpace(string(text))
}

// commit makes files the content of the branch, and returns the hash of the commit.
func (g *gitServer) commit(t *testing.T, files map[string]string) string {
	t.Helper()
	git(t, g.work, "rm", "-rqf", "--ignore-unmatch", ".")
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(g.work, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(g.work, name), []byte(text), 0o600))
	}
	git(t, g.work, "add", "--all")
	git(t, g.work, "commit", "--quiet", "--allow-empty", "-m", "change")
	git(t, g.work, "push", "--quiet", "origin", "main")
	return git(t, g.work, "rev-parse", "HEAD")
}

// ociServer is a registry.
type ociServer struct{ host string }

func newOCIServer(t *testing.T) *ociServer {
	t.Helper()
	server := suite.Serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	return &ociServer{strings.TrimPrefix(server.URL, "http://")}
}

// push makes files the artifact of the tag latest, as flux push artifact does, and returns its digest.
func (o *ociServer) push(t *testing.T, files map[string]string) string {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	image, err := mutate.Append(image, mutate.Addendum{Layer: static.NewLayer(packed(t, files), "application/vnd.cncf.flux.content.v1.tar+gzip")})
	require.NoError(t, err)
	require.NoError(t, crane.Push(image, o.host+"/app:latest", crane.Insecure))
	digest, err := image.Digest()
	require.NoError(t, err)
	return digest.String()
}

// s3Server serves one bucket with the requests of S3 that a Bucket of Flux needs: the listing and reading of objects.
type s3Server struct {
	host string

	mu    sync.Mutex
	files map[string]string
}

func newS3Server(t *testing.T) *s3Server {
	t.Helper()
	s := &s3Server{}
	s.host = strings.TrimPrefix(suite.Serve(t, s).URL, "http://")
	return s
}

func (s *s3Server) set(files map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = maps.Clone(files)
}

// etag is the ETag of a file.
func etag(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // as S3 does it
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// listed is an object in the answer of a listing.
type listed struct {
	Key, LastModified, ETag string
	Size                    int
}

// ServeHTTP implements http.Handler.
func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	files := s.files
	s.mu.Unlock()
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	text, found := files[key]
	switch {
	case r.URL.Query().Has("location"):
		_, _ = io.WriteString(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	case key == "":
		answer := struct {
			XMLName     xml.Name `xml:"ListBucketResult"`
			Name        string
			KeyCount    int
			IsTruncated bool
			Contents    []listed
		}{Name: "manifests", KeyCount: len(files)}
		for _, key := range slices.Sorted(maps.Keys(files)) {
			answer.Contents = append(answer.Contents, listed{key, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), etag(files[key]), len(files[key])})
		}
		_ = xml.NewEncoder(w).Encode(answer)
	case !found:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		w.Header().Set("ETag", etag(text))
		http.ServeContent(w, r, "", time.Unix(1_000_000_000, 0), bytes.NewReader([]byte(text)))
	}
}
