package flux

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/source"
)

// bomb are aliases that make 9^9 values.
func bomb(indent string) string {
	text := indent + "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		text += fmt.Sprintf("%sa%d: &a%d [%s]\n", indent, i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	return text
}

// TestAliases: kustomize expands aliases without bounds, and ends the process with those that contain themselves.
func TestAliases(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	indented := func(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n" }
	k := func(text string) map[string]string {
		return map[string]string{"kustomization.yaml": text, "a.yaml": cm("a", "x")}
	}
	refused := map[string]map[string]string{
		"cycle":           {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": head + "x: &a [*a]\n"},
		"cycle by a map":  {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": head + "x: &a {y: *a}\n"},
		"growth":          {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": head + bomb("")},
		"any name":        {"kustomization.yaml": "resources: [a.txt]\n", "a.txt": head + "x: &a [*a]\n"},
		"list":            {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: List\nitems: &a [*a]\n"},
		"long value":      {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": head + "data:\n  a: &a " + strings.Repeat("x", 1<<20) + "\n" + "x: [" + strings.Repeat("*a,", 20) + "*a]\n"},
		"later document":  {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": cm("a", "x") + "---\n" + head + "x: &a [*a]\n"},
		"patch in a file": {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": cm("a", "x"), "p.yaml": head + bomb("")},
		"inline patch":    k("resources: [a.yaml]\npatches:\n- patch: |-\n" + indented(head+bomb(""))),
		"merge patch":     k("resources: [a.yaml]\npatchesStrategicMerge:\n- |-\n" + indented(head+"x: &a [*a]")),
		"transformer":     k("resources: [a.yaml]\ntransformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: x}\n  x: &a [*a]\n"),
		"patch of a transformer": {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n", "a.yaml": cm("a", "x"),
			"t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npatch: |-\n" + indented(head+bomb(""))},
		"no kustomization": {"a.yaml": head + "x: &a [*a]\n"},
		"kustomization":    {"kustomization.yaml": "resources: &a [*a]\n"},
	}
	for name, all := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := files(t, all)
			_, err := build(root, root, nil, source.Variables{})
			require.Error(t, err)
			require.Regexp(t, "aliases|itself|cannot be read|no kustomization", err.Error())
		})
	}
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		root := files(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": head + "x: &a {b: c}\ny: *a\nz: {<<: *a, d: e}\n"})
		texts, err := build(root, root, nil, source.Variables{})
		require.NoError(t, err)
		require.Contains(t, texts[0].Text, "z:\n  b: c\n  d: e\n")
	})
}

// TestBuildSizes: what kustomize would take too long for, or too much memory, is refused before it begins.
func TestBuildSizes(t *testing.T) {
	t.Parallel()
	many := func(n int, text func(i int) string) string {
		var all strings.Builder
		for i := range n {
			all.WriteString(text(i))
		}
		return all.String()
	}
	long := "# " + strings.Repeat("x", maxYAML+1) + "\n"
	for name, tt := range map[string]struct {
		reason string
		files  map[string]string
		want   string
	}{
		"documents": {"Each document is an object.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": many(manifest.MaxObjects+1, func(i int) string { return cm(fmt.Sprint("a", i), "x") + "---\n" })}, "objects and patches"},
		"list": {"Each item is an object.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: List\nitems:\n" + many(manifest.MaxObjects+1, func(i int) string {
			return fmt.Sprintf("- {apiVersion: v1, kind: ConfigMap, metadata: {name: a%d}}\n", i)
		})}, "objects and patches"},
		"inner list": {"Of several documents, lists are replaced later.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": cm("a", "x") + "---\napiVersion: v1\nkind: ConfigMapList\nitems: &x [" + strings.Repeat("{metadata: {name: a}},", manifest.MaxObjects) + "]\n"}, "objects and patches"},
		"generators": {"Each one makes an object.", map[string]string{"kustomization.yaml": "configMapGenerator:\n" + many(manifest.MaxObjects+1, func(i int) string { return fmt.Sprintf("- {name: a%d}\n", i) })}, "objects and patches"},
		"patches":    {"Each one is tried on each object.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches:\n" + many(manifest.MaxObjects+1, func(int) string { return "- {patch: '[{op: add, path: /x, value: y}]'}\n" }), "a.yaml": cm("a", "x")}, "objects and patches"},
		"no kustomization": {"Files are read to make one.", map[string]string{"a.yaml": many(manifest.MaxObjects/2+1, func(i int) string { return cm(fmt.Sprint("a", i), "x") + "---\n" }),
			"b.yaml": many(manifest.MaxObjects/2+1, func(i int) string { return cm(fmt.Sprint("b", i), "x") + "---\n" })}, "objects and patches"},
		"long file":               {"It is not read.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": long + cm("a", "x")}, "reads more than"},
		"long kustomization":      {"It is not read.", map[string]string{"kustomization.yaml": long + "resources: [a.yaml]\n", "a.yaml": cm("a", "x")}, "reads more than"},
		"long files without one":  {"They are not parsed.", map[string]string{"a.yaml": long[:maxYAML/2], "b.yaml": long[:maxYAML/2+100]}, "reads more than"},
		"long configuration":      {"It is not read.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n", "a.yaml": cm("a", "x"), "t.yaml": long}, "reads more than"},
		"charts":                  {"They are not rendered.", map[string]string{"kustomization.yaml": "helmCharts: [{name: x, valuesInline: {password: hunter2}}]\n"}, "helm template"},
		"credentials of a remote": {"They are not shown.", map[string]string{"kustomization.yaml": "resources: ['https://hunter2@example.com/a?token=hunter2']\n"}, `"example.com/a" is remote`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := files(t, tt.files)
			_, err := build(root, root, nil, source.Variables{})
			require.ErrorContains(t, err, tt.want, tt.reason)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// TestSubstitutionSizes: variables do not fill the memory.
func TestSubstitutionSizes(t *testing.T) {
	t.Parallel()
	vars := source.Variables{Values: map[string]string{"v": strings.Repeat("x", 100_000), "w": "world"}}
	for name, tt := range map[string]struct {
		value, want string
	}{
		"uses":         {strings.Repeat("${v}", 1_000), "with their variables"},
		"replacements": {"${v//x/" + strings.Repeat("y", 100) + "}", "with their variables"},
		"nested":       {"${v//x/${v}}", "with their variables"},
		"default":      {"${none:=" + strings.Repeat("${v}", 1_000) + "}", "with their variables"},
		"few uses":     {strings.Repeat("${v}", 10), ""},
		"replacement":  {"${w//o/0}${w/l/L}${#w}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := files(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": cm("a", "'"+tt.value+"'")})
			_, err := build(root, root, &v1alpha1.Kustomize{}, vars)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// TestErrorsOfBuilds: an error has the file and the reason, and no value: kustomize quotes whole objects.
func TestErrorsOfBuilds(t *testing.T) {
	t.Parallel()
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {password: hunter2}\n"
	patch := "- patch: |-\n    apiVersion: v1\n    kind: Secret\n    metadata: {name: none}\n    stringData: {password: hunter2}\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"literals":       {map[string]string{"kustomization.yaml": "secretGenerator: [{name: x, literals: [hunter2]}]\n"}, []string{"kustomize cannot build it"}},
		"field":          {map[string]string{"kustomization.yaml": "secretGenerator: [{name: x, literal: [password=hunter2]}]\n"}, []string{"file kustomization.yaml", `unknown field "literal"`}},
		"type":           {map[string]string{"kustomization.yaml": "secretGenerator: [{name: x, literals: 'password=hunter2'}]\n"}, []string{"file kustomization.yaml", "cannot unmarshal string"}},
		"patch":          {map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches:\n" + patch, "a.yaml": cm("a", "x")}, []string{"Secret.v1", "none"}},
		"broken patch":   {map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{patch: 'kind: Secret, password: hunter2'}]\n", "a.yaml": cm("a", "x")}, []string{"kustomize cannot build it"}},
		"no name":        {map[string]string{"kustomization.yaml": "resources: [b/a.yaml]\n", "b/a.yaml": fmt.Sprintf(secret, "''")}, []string{"file b/a.yaml", "missing metadata.name"}},
		"syntax":         {map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": fmt.Sprintf(secret, "a") + "x: 'hunter2\n"}, []string{"file a.yaml", "yaml: line"}},
		"twice":          {map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]\n", "a.yaml": fmt.Sprintf(secret, "a"), "b.yaml": fmt.Sprintf(secret, "a")}, []string{"file b.yaml", "already registered id: Secret.v1"}},
		"without a file": {map[string]string{"a.yaml": fmt.Sprintf(secret, "''")}, []string{"file a.yaml", "missing metadata.name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := files(t, tt.files)
			_, err := build(root, root, nil, source.Variables{})
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), root)
		})
	}
}

// TestOriginOfOthers: an annotation of an object has no other file read than those of the build.
func TestOriginOfOthers(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\ncommonAnnotations: {config.kubernetes.io/origin: 'path: other.yaml'}\n", "a.yaml": cm("a", "x"), "other.yaml": cm("a", "other"),
	})
	texts, err := build(root, root, nil, source.Variables{})
	require.NoError(t, err)
	require.Nil(t, texts[0].Origin)
}

// TestAnswers: an error of a request has no part of the answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer, want string
	}{
		"no HTTP":        {"hunter2 hunter2\r\n\r\n", "no HTTP"},
		"status":         {"HTTP/1.1 hunter2 x\r\n\r\n", "no HTTP"},
		"header":         {"HTTP/1.1 200 OK\r\nhunter2\r\n\r\n", "no HTTP"},
		"encoding":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2\r\n\r\n", "no HTTP"},
		"length":         {"HTTP/1.1 200 OK\r\nContent-Length: hunter2\r\n\r\n", "no HTTP"},
		"redirect":       {"HTTP/1.1 302 Found\r\nLocation: http://hunter2/\r\n\r\n", "redirects"},
		"wrong redirect": {"HTTP/1.1 302 Found\r\nLocation: http://hunter2:x y/%\r\n\r\n", "no HTTP"},
		"no location":    {"HTTP/1.1 302 hunter2\r\n\r\n", ""},
		"reason":         {"HTTP/1.1 500 hunter2\r\nConnection: close\r\n\r\nhunter2", "answers 500"},
		"chunk":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n", ""},
		"nothing":        {"", "closes the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = listener.Close() }()
			go func() {
				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}
					_, _ = connection.Read(make([]byte, 4096))
					_, _ = connection.Write([]byte(tt.answer))
					_ = connection.Close()
				}
			}()
			artifact := &meta.Artifact{URL: "http://" + listener.Addr().String() + "/a.tar.gz", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(nil))}
			err = fetch(t.Context(), NewClient(here), artifact, t.TempDir())
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		err := fetch(t.Context(), NewClient(here), &meta.Artifact{URL: "http://127.0.0.1:1/", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(nil))}, t.TempDir())
		require.ErrorContains(t, err, "connection refused")
	})
}

// TestInodes: directories count as files, and their depth is bounded.
func TestInodes(t *testing.T) {
	t.Parallel()
	var many []entry
	for i := range maxFiles / maxDirs {
		many = append(many, entry{name: fmt.Sprint(i) + strings.Repeat("/d", maxDirs-1) + "/f"})
	}
	for name, tt := range map[string]struct {
		entries []entry
		want    string
	}{
		"deep":                {[]entry{{name: strings.Repeat("d/", maxDirs+1) + "f"}}, "more than 32 directories"},
		"deep directory":      {[]entry{{name: strings.Repeat("d/", maxDirs+2), kind: '5'}}, "more than 32 directories"},
		"as deep as may be":   {[]entry{{name: strings.Repeat("d/", maxDirs) + "f"}}, ""},
		"implied directories": {many, "files and directories"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := unpack(bytes.NewReader(archive(t, tt.entries...)), t.TempDir())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// TestLeftovers: the artifacts of a former process with the same id are removed, and those of others stay.
func TestLeftovers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	former, other := filepath.Join(os.TempDir(), directory+"1"), filepath.Join(os.TempDir(), "vidra-artifact-0-1")
	require.NoError(t, os.MkdirAll(filepath.Join(former, "a"), 0o700))
	require.NoError(t, os.Mkdir(other, 0o700))
	removeLeftovers()
	require.NoDirExists(t, former)
	require.DirExists(t, other)
}

// allServed has all kinds served.
type allServed struct{}

func (allServed) Mapping(_ context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error) {
	return cluster.Mapping{GVR: gvk.GroupVersion().WithResource("gitrepositories")}, nil
}

func (allServed) Invalidate(string) {}

// TestTextOfAProxy: a text with 404 does not make a source absent. An absent one has no objects to wait for, and is read again when it is created alone.
func TestTextOfAProxy(t *testing.T) {
	t.Parallel()
	kind := schema.GroupResource{Group: Group, Resource: "gitrepositories"}
	for name, tt := range map[string]struct {
		answer error
		absent bool
	}{
		"text":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", kind, "web", "404 page not found", 0, true), false},
		"Status": {apierrors.NewNotFound(kind, "web"), true},
	} {
		client := fake.NewSimpleDynamicClient(runtime.NewScheme())
		client.PrependReactor("get", "gitrepositories", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.answer })
		content, err := (&artifacts{options: Options{Kinds: allServed{}}}).Fetch(t.Context(), source.Request{
			Client: client, Key: source.Key{Kind: "GitRepository", Namespace: "shop", Name: "web"}, Namespace: "shop",
		})
		require.Nil(t, content, name)
		require.Equal(t, tt.absent, err == nil, name)
		require.False(t, source.IsEmpty(err), name)
	}
}

// TestLongRevisions: what a status claims is kept and shown only if it is short.
func TestLongRevisions(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]string{"revision": "revision", "digest": "digest"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claimed := map[string]any{"url": "http://a", "path": "a", "revision": "main", "digest": "sha256:0", "lastUpdateTime": "2026-01-01T00:00:00Z"}
			u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"artifact": claimed}}}
			require.Equal(t, "main sha256:0", (&artifacts{}).Revision(u))
			claimed[field] = strings.Repeat("x", 1<<20)
			require.Less(t, len((&artifacts{}).Revision(u)), 1024)
			artifact, why := artifactOf(u)
			require.Nil(t, artifact)
			require.Contains(t, why, "at most")
		})
	}
}

// TestPathsTogether: all paths of an artifact have one bound.
func TestPathsTogether(t *testing.T) {
	t.Parallel()
	file := archive(t, entry{name: "a.yaml", text: "# " + strings.Repeat("x", maxYAML/2) + "\n" + cm("a", "x")})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }))
	defer server.Close()
	artifact := &meta.Artifact{URL: server.URL, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(file)), Revision: "main"}
	a := &artifacts{options: Options{HTTP: NewClient(here)}}
	parts := []v1alpha1.ManifestSource{{Path: "a.yaml"}}
	_, err := a.read(t.Context(), source.Request{Parts: parts}, artifact)
	require.NoError(t, err)
	_, err = a.read(t.Context(), source.Request{Parts: append(parts, parts...)}, artifact)
	require.ErrorContains(t, err, "the paths up to here have more than")
	invalid := (*source.Error)(nil)
	require.ErrorAs(t, err, &invalid)
}
