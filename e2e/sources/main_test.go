package sources

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var (
	cluster = &suite.Cluster{}
	admin   client.Client
	// operator is the process of Vidra, and binary how it is started.
	operator *testenv.Operator
	binary   string
)

// The tests share one operator, which some of them restart, so they run one after the other.
func TestMain(m *testing.M) { suite.Main(m, setUp, cluster.Stop) }

func setUp(ctx context.Context) (err error) {
	if binary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	admin = cluster.Admin
	if err := cluster.Install(ctx); err != nil {
		return err
	}
	operator, err = start(ctx)
	return err
}

// start starts an operator that fetches artifacts from this machine.
func start(ctx context.Context, flags ...string) (*testenv.Operator, error) {
	return cluster.StartOperator(ctx, testenv.OperatorOptions{Binary: binary, Args: append([]string{"--artifact-hosts=127.0.0.1"}, flags...)})
}

// restart ends the operator as a crash does, and starts it again. between is done meanwhile.
func restart(t *testing.T, between func(), flags ...string) {
	t.Helper()
	suite.Kill(t, operator)
	between()
	var err error
	operator, err = start(context.Background(), flags...)
	require.NoError(t, err)
}

const group = "source.toolkit.fluxcd.io"

// define creates the CustomResourceDefinitions of kinds.
func define(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), testenv.FluxCRD(kind))))
		suite.Await(t, func(c *assertT) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind + "List"})
			require.NoError(c, admin.List(t.Context(), list))
		})
	}
}

// producer publishes artifacts, as a controller of Flux does: it serves archives, and writes the status of the source.
type producer struct {
	url string

	mu    sync.Mutex
	files map[string][]byte
	// broken is the status of all answers; 0 for none.
	broken int
	// slow has answers that never end: of the paths with this prefix. waiting is the number of those that are asked for, and most the largest one.
	slow          string
	waiting, most int
	// ended is closed at the end of the test.
	ended chan struct{}
}

func newProducer(t *testing.T) *producer {
	t.Helper()
	p := &producer{files: map[string][]byte{}, ended: make(chan struct{})}
	p.url = suite.Serve(t, p).URL
	t.Cleanup(func() { close(p.ended) })
	return p
}

// ServeHTTP implements http.Handler.
func (p *producer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow != "" && strings.HasPrefix(r.URL.Path, p.slow) {
		p.waiting++
		p.most = max(p.most, p.waiting)
		p.mu.Unlock()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-p.ended:
		}
		p.mu.Lock()
		p.waiting--
		return
	}
	file, found := p.files[r.URL.Path]
	switch {
	case p.broken != 0:
		w.WriteHeader(p.broken)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(file)
	}
}

func (p *producer) setBroken(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = status
}

// packed returns an archive of files.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var all bytes.Buffer
	zip := gzip.NewWriter(&all)
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zip.Close())
	return all.Bytes()
}

// newSource creates a source without an artifact.
func newSource(t *testing.T, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"interval": "1m"}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	u.SetNamespace(namespace)
	u.SetName(name)
	require.NoError(t, admin.Create(t.Context(), u))
	return u
}

// publish makes files the artifact of a source, in a revision. change changes the artifact in the status.
func (p *producer) publish(t *testing.T, u *unstructured.Unstructured, revision string, files map[string]string, change ...func(map[string]any)) {
	t.Helper()
	file := packed(t, files)
	path := fmt.Sprintf("/%s/%s/%s.tar.gz", u.GetNamespace(), u.GetName(), revision)
	p.mu.Lock()
	p.files[path] = file
	p.mu.Unlock()
	artifact := map[string]any{
		"url": p.url + path, "path": path, "revision": revision, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(file)),
		"size": len(file), "lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}
	for _, c := range change {
		c(artifact)
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"artifact": artifact}})
	require.NoError(t, err)
	require.NoError(t, admin.Status().Patch(t.Context(), u.DeepCopy(), client.RawPatch(mergePatchType, status)))
}

// from makes the manifest of a VidraResource come from a path of a source.
func from(kind, name, path string, more ...func(*v1alpha1.VidraResource)) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: kind, Name: name, Path: path}}
		for _, m := range more {
			m(v)
		}
	}
}
