package flux

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	fluxkustomize "github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  greeting: %s\n"

func cm(name, greeting string) string { return fmt.Sprintf(configMap, name, greeting) }

// TestHosts: an artifact is fetched from the allowed hosts alone.
func TestHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason, hosts, url string
		want               bool
	}{
		"service":            {"Flux has its source-controller there.", "", "http://source-controller.flux-system.svc.cluster.local./gitrepository/a/b.tar.gz", true},
		"short service":      {"The domain of the cluster may be left out.", "", "http://source-controller.flux-system.svc/x", true},
		"port of a service":  {"Any port.", "", "http://producer.team-a.svc.cluster.local:8080/x", true},
		"elsewhere":          {"A forged URL.", "", "http://example.com/x", false},
		"metadata server":    {"A forged URL.", "", "http://169.254.169.254/latest", false},
		"looks like service": {"The suffix is another domain.", "", "http://a.b.svc.example.com/x", false},
		"API server":         {"It is no Service with its namespace.", "", "https://kubernetes/x", false},
		"suffix":             {"A star stands for one label.", "*.example.com", "http://a.b.example.com/x", false},
		"one label":          {"A star stands for one label.", "*.example.com", "http://a.example.com/x", true},
		"port":               {"With a port, only that one.", "a.example.com:8080", "http://a.example.com:8081/x", false},
		"default port":       {"The port of the scheme counts.", "a.example.com:443", "https://a.example.com/x", true},
		"upper case":         {"Names have no case.", "a.example.com", "http://A.Example.com/x", true},
		"IPv6":               {"An address with a port.", "[::1]:8080", "http://[::1]:8080/x", true},
		"credentials":        {"The host counts.", "a.example.com", "http://a.example.com@evil.example.org/x", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts := ServiceHosts
			if tt.hosts != "" {
				var err error
				hosts, err = ParseHosts(tt.hosts)
				require.NoError(t, err)
			}
			u, err := url.Parse(tt.url)
			require.NoError(t, err)
			require.Equal(t, tt.want, hosts.Allows(u), tt.reason)
		})
	}
	for _, text := range []string{"", "a,", "http://a", "a/b", "a b", "[", "u@a"} {
		_, err := ParseHosts(text)
		require.Error(t, err, text)
	}
}

// entry is an entry of an archive.
type entry struct {
	name, text string
	kind       byte
	link       string
}

// archive makes a compressed archive.
func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var all bytes.Buffer
	packed := gzip.NewWriter(&all)
	w := tar.NewWriter(packed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: e.kind, Linkname: e.link}
		if e.kind == 0 {
			header.Typeflag = tar.TypeReg
		}
		require.NoError(t, w.WriteHeader(header))
		_, err := w.Write([]byte(e.text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, packed.Close())
	return all.Bytes()
}

// served serves a file and returns its artifact.
func served(t *testing.T, file []byte) *meta.Artifact {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }))
	t.Cleanup(server.Close)
	size := int64(len(file))
	return &meta.Artifact{URL: server.URL + "/a.tar.gz", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(file)), Size: &size, Revision: "main@sha1:1"}
}

var here = Hosts{"127.0.0.1"}

// TestFetch: an artifact is unpacked if it has the size and the digest of the status, and nothing is written outside of its directory.
func TestFetch(t *testing.T) {
	t.Parallel()
	good := func(t *testing.T) []byte { return archive(t, entry{name: "a/b.yaml", text: cm("a", "hello")}) }
	long := func(t *testing.T) []byte {
		entries := make([]entry, maxFiles+1)
		for i := range entries {
			entries[i].name = fmt.Sprint("f", i)
		}
		return archive(t, entries...)
	}
	for name, tt := range map[string]struct {
		reason string
		file   func(t *testing.T) []byte
		change func(*meta.Artifact)
		want   string
	}{
		"good":         {"It is unpacked.", good, func(*meta.Artifact) {}, ""},
		"without size": {"The digest counts.", good, func(a *meta.Artifact) { a.Size = nil }, ""},
		"digest":       {"The server gives another file.", good, func(a *meta.Artifact) { a.Digest = "sha256:" + strings.Repeat("0", 64) }, "does not have the digest"},
		"no digest":    {"Nothing can be verified.", good, func(a *meta.Artifact) { a.Digest = "" }, "status.artifact.digest is empty"},
		"weak digest":  {"It proves nothing.", good, func(a *meta.Artifact) { a.Digest = "md5:" + strings.Repeat("0", 32) }, `digests of "md5" cannot be verified`},
		"longer":       {"More than the status says.", good, func(a *meta.Artifact) { *a.Size-- }, "more than the"},
		"shorter":      {"Less than the status says.", good, func(a *meta.Artifact) { *a.Size++ }, "status.artifact.size is"},
		"huge":         {"It is not even fetched.", good, func(a *meta.Artifact) { *a.Size = maxArchive + 1 }, "the limit is"},
		"no host":      {"A forged URL.", good, func(a *meta.Artifact) { a.URL = "file:///etc/passwd" }, "no http or https URL"},
		"other host":   {"A forged URL.", good, func(a *meta.Artifact) { a.URL = "http://192.0.2.1/x" }, "the host 192.0.2.1 is not one of those from which artifacts are fetched (127.0.0.1)"},
		"no archive":   {"It is another file.", func(*testing.T) []byte { return []byte("hello") }, func(*meta.Artifact) {}, "cannot be unpacked"},
		"parent":       {"It leads out of the directory.", func(t *testing.T) []byte { return archive(t, entry{name: "../evil.yaml", text: "x"}) }, func(*meta.Artifact) {}, "invalid name"},
		"inner parent": {"It leads out of the directory.", func(t *testing.T) []byte { return archive(t, entry{name: "a/../../evil.yaml", text: "x"}) }, func(*meta.Artifact) {}, "invalid name"},
		"absolute":     {"It leads out of the directory.", func(t *testing.T) []byte { return archive(t, entry{name: "/tmp/evil.yaml", text: "x"}) }, func(*meta.Artifact) {}, "invalid name"},
		"hard link": {"It would be an empty file.", func(t *testing.T) []byte {
			return archive(t, entry{name: "l", kind: tar.TypeLink, link: "/etc/passwd"})
		}, func(*meta.Artifact) {}, `"l" is a hard link`},
		"device":     {"It is no file.", func(t *testing.T) []byte { return archive(t, entry{name: "d", kind: tar.TypeChar}) }, func(*meta.Artifact) {}, "unsupported file type"},
		"many files": {"A bomb of entries.", long, func(*meta.Artifact) {}, "more than 50000 files"},
		"bomb of zeros": {"A bomb of bytes.", func(t *testing.T) []byte {
			return archive(t, entry{name: "z", text: strings.Repeat("\x00", maxUnpacked+1)})
		}, func(*meta.Artifact) {}, "bigger than max archive size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			artifact := served(t, tt.file(t))
			tt.change(artifact)
			around := t.TempDir()
			dir := filepath.Join(around, "in", "artifact")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			err := fetch(t.Context(), NewClient(here), artifact, dir)
			if tt.want == "" {
				require.NoError(t, err, tt.reason)
				require.FileExists(t, filepath.Join(dir, "a", "b.yaml"))
				return
			}
			require.ErrorContains(t, err, tt.want, tt.reason)
			require.NotContains(t, err.Error(), around, "no path of this machine is shown")
			for _, place := range []string{around, filepath.Join(around, "in")} {
				entries, err := os.ReadDir(place)
				require.NoError(t, err)
				require.Len(t, entries, 1, "nothing is written outside of the directory")
			}
		})
	}
}

// TestSymbolicLinks: a symbolic link is not unpacked, so that nothing is read through it.
func TestSymbolicLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	artifact := served(t, archive(t, entry{name: "l.yaml", kind: tar.TypeSymlink, link: "/etc/passwd"}, entry{name: "d", kind: tar.TypeSymlink, link: "/etc"}, entry{name: "a.yaml", text: cm("a", "b")}))
	require.NoError(t, fetch(t.Context(), NewClient(here), artifact, dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// TestRedirects: a redirect leads to no other host or port.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	file := archive(t, entry{name: "a.yaml", text: cm("a", "b")})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(file)
	}))
	defer other.Close()
	target := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			_, _ = w.Write(file)
			return
		}
		http.Redirect(w, r, target, http.StatusFound)
	}))
	defer server.Close()
	artifact := served(t, file)
	artifact.URL = server.URL + "/a"
	for _, target = range []string{other.URL, "http://metadata.example.com/", "http://localhost:1/"} {
		require.ErrorContains(t, fetch(t.Context(), NewClient(Hosts{"127.0.0.1", "localhost", "*.example.com"}), artifact, t.TempDir()), "only redirects to the same host are followed")
	}
	require.Zero(t, asked.Load())
	target = "/here"
	require.NoError(t, fetch(t.Context(), NewClient(here), artifact, t.TempDir()))
	target = "/a"
	require.ErrorContains(t, fetch(t.Context(), NewClient(here), artifact, t.TempDir()), "too often")
}

// files writes files below a directory, which it returns.
func files(t *testing.T, all map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range all {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// TestReadPath: what is read of a path, and from where.
func TestReadPath(t *testing.T) {
	t.Parallel()
	plain := map[string]string{"b/2.yaml": cm("two", "x"), "b/1.yml": cm("one", "x"), "a.yaml": cm("a", "x"), "README.md": "hello", "c/values.json": "{}"}
	overlay := map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": "# a comment\n" + cm("web", "hello"),
		"prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\nconfigMapGenerator:\n- name: made\n  literals: [a=b]\n",
	}
	for name, tt := range map[string]struct {
		reason string
		files  map[string]string
		path   string
		k      *v1alpha1.Kustomize
		vars   source.Variables
		// labels are those of the texts, and has is in the text of one of them.
		labels []string
		has    []string
		lines  []int
	}{
		"whole artifact": {"All YAML files in the order of their paths.", plain, "", nil, source.Variables{}, []string{"file a.yaml", "file b/1.yml", "file b/2.yaml"}, []string{"name: two"}, nil},
		"comments":       {"A file without a document is none.", map[string]string{"a.yaml": "# hello\n---\n--- # x\n\n", "b.yaml": cm("b", "x")}, "", nil, source.Variables{}, []string{"file b.yaml"}, nil, nil},
		"directory":      {"Only what is below it.", plain, "./b", nil, source.Variables{}, []string{"file b/1.yml", "file b/2.yaml"}, nil, nil},
		"file":           {"One file.", plain, "b/2.yaml", nil, source.Variables{}, []string{"file b/2.yaml"}, nil, nil},
		"overlay":        {"It is built, also from files beside the path.", overlay, "prod", nil, source.Variables{}, []string{"file base/web.yaml", "file prod/kustomization.yaml"}, []string{"name: prod-web", "name: prod-made-"}, []int{2, 0}},
		"inner kustomization": {"A directory with a kustomization is built, as Flux does.", map[string]string{"x/kustomization.yaml": "resources: [a.yaml]\nnameSuffix: -x\n", "x/a.yaml": cm("a", "x"), "b.yaml": cm("b", "x")},
			"", nil, source.Variables{}, []string{"file b.yaml", "file x/a.yaml"}, []string{"name: a-x"}, []int{1, 1}},
		"settings": {"The settings of spec.kustomize.", plain, "b", &v1alpha1.Kustomize{
			NamePrefix: "p-", NameSuffix: "-s", TargetNamespace: "ns", CommonMetadata: &v1alpha1.CommonMetadata{Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"a": "b"}},
			Patches: []fluxkustomize.Patch{{Patch: "- {op: replace, path: /data/greeting, value: patched}", Target: &fluxkustomize.Selector{Kind: "ConfigMap", Name: "two"}}},
		}, source.Variables{}, []string{"file b/1.yml", "file b/2.yaml"}, []string{"name: p-one-s", "namespace: ns", "team: shop", "a: b", "greeting: patched"}, []int{1, 1}},
		"images": {"Images are replaced.", map[string]string{"p.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: nginx:1}]}\n"}, "",
			&v1alpha1.Kustomize{Images: []fluxkustomize.Image{{Name: "nginx", NewName: "example.com/nginx", NewTag: "2"}}}, source.Variables{}, []string{"file p.yaml"}, []string{"image: example.com/nginx:2"}, nil},
		"components": {"Components below the artifact.", map[string]string{"a/a.yaml": cm("a", "x"), "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamePrefix: c-\n"}, "a",
			&v1alpha1.Kustomize{Components: []string{"../c", "../none"}, IgnoreMissingComponents: true}, source.Variables{}, []string{"file a/a.yaml"}, []string{"name: c-a"}, nil},
		"variables":    {"Variables are substituted, also with defaults.", map[string]string{"a.yaml": cm("a", "${who}-${none:=nobody}")}, "", &v1alpha1.Kustomize{}, source.Variables{Values: map[string]string{"who": "world"}}, []string{"file a.yaml"}, []string{"greeting: world-nobody"}, nil},
		"no variables": {"Without variables, the text stays.", map[string]string{"a.yaml": cm("a", "${who}")}, "", nil, source.Variables{}, []string{"file a.yaml"}, []string{"greeting: ${who}"}, nil},
		"disabled":     {"An object may keep its text.", map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}\ndata: {x: \"${who}\"}\n"}, "", &v1alpha1.Kustomize{}, source.Variables{Values: map[string]string{"who": "world"}}, []string{"file a.yaml"}, []string{"x: ${who}"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts, err := readPath(t.Context(), nil, files(t, tt.files), tt.path, tt.k, tt.vars)
			require.NoError(t, err, tt.reason)
			var labels, all []string
			for i, text := range texts {
				labels, all = append(labels, text.Label), append(all, text.Text)
				require.NotContains(t, text.Text, originAnnotation)
				if i < len(tt.lines) && tt.lines[i] > 0 {
					require.NotNil(t, text.Origin, text.Label)
					require.Equal(t, tt.lines[i], text.Origin.Position.Line, text.Label)
				}
			}
			require.Equal(t, tt.labels, labels, tt.reason)
			for _, has := range tt.has {
				require.Contains(t, strings.Join(all, "---\n"), has, tt.reason)
			}
		})
	}
}

// TestSecretVariables: an object that uses a value of a Secret is sensitive, and no error quotes it.
func TestSecretVariables(t *testing.T) {
	t.Parallel()
	vars := source.Variables{Values: map[string]string{"password": "hunter2", "who": "world"}, Secret: []string{"password"}}
	texts, err := readPath(t.Context(), nil, files(t, map[string]string{
		"a.yaml": cm("a", "${who}"), "b.yaml": cm("b", `"${password}"`), "c.yaml": cm("c", `"${#password}"`), "d.yaml": cm("d", `"${who:=${password}}"`),
	}), "", &v1alpha1.Kustomize{}, vars)
	require.NoError(t, err)
	for i, sensitive := range []bool{false, true, true, true} {
		require.Equal(t, sensitive, texts[i].Sensitive, texts[i].Text)
	}
	vars.Values["password"] = "hunter2: {"
	_, err = readPath(t.Context(), nil, files(t, map[string]string{"b.yaml": cm("b", "${password}")}), "", &v1alpha1.Kustomize{}, vars)
	require.ErrorContains(t, err, "withheld")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestVariableNames: a key of a ConfigMap or Secret that can name no variable is in the error, as no file shows it.
func TestVariableNames(t *testing.T) {
	t.Parallel()
	vars := source.Variables{Values: map[string]string{"who": "world", "ca.crt": "hunter2"}, Secret: []string{"ca.crt", "who"}}
	for _, value := range []string{"${who}", "plain"} {
		_, err := readPath(t.Context(), nil, files(t, map[string]string{"a.yaml": cm("a", value)}), "", &v1alpha1.Kustomize{}, vars)
		require.ErrorContains(t, err, `"ca.crt"`)
		require.ErrorContains(t, err, "spec.kustomize.substituteFrom")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// TestRefusedPaths: a kustomization reads nothing outside of the artifact, sends no request and starts no program.
func TestRefusedPaths(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(cm("remote", "x")))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.Zero(t, asked.Load(), "no request is sent") })
	outside := files(t, map[string]string{"secret.yaml": cm("outside", "x"), "kustomization.yaml": "resources: [secret.yaml]"})
	k := func(text string) map[string]string {
		return map[string]string{"kustomization.yaml": text, "a.yaml": cm("a", "x")}
	}
	at := server.URL + "/a.yaml"
	for name, tt := range map[string]struct {
		files      map[string]string
		path, want string
	}{
		"parent":              {k("resources: [a.yaml]"), "../x", "leads out of the artifact"},
		"inner parent":        {k("resources: [a.yaml]"), "a/../../x", "leads out of the artifact"},
		"missing":             {k("resources: [a.yaml]"), "none", "does not exist in the artifact"},
		"no files":            {map[string]string{"README": "x"}, "", "no YAML files"},
		"URL":                 {k("resources: [" + at + "]"), "", "is remote"},
		"URL in upper case":   {k("resources: [" + strings.Replace(at, "http", "HTTP", 1) + "]"), "", "is remote"},
		"field in upper case": {k("RESOURCES: [" + at + "]"), "", ""},
		"repository":          {k("resources: [github.com/a/b]"), "", "is remote"},
		"repository by ssh":   {k("resources: ['git@example.com:a/b.git']"), "", "is remote"},
		"other user":          {k("resources: ['me@example.com:a/b']"), "", "is remote"},
		"repository by file":  {k("resources: ['file://" + outside + "']"), "", "is remote"},
		"base":                {k("bases: ['https://example.com/a/b?ref=x']"), "", "is remote"},
		"component":           {k("resources: [a.yaml]\ncomponents: ['https://example.com/a/b']"), "", "is remote"},
		"patch":               {k("resources: [a.yaml]\npatches: [{path: '" + at + "'}]"), "", "is remote"},
		"merge patch":         {k("resources: [a.yaml]\npatchesStrategicMerge: ['" + at + "']"), "", "is remote"},
		"JSON patch":          {k("resources: [a.yaml]\npatchesJson6902: [{path: '" + at + "', target: {version: v1, kind: ConfigMap, name: a}}]"), "", "is remote"},
		"file of generator":   {k("configMapGenerator: [{name: x, files: ['k=" + at + "']}]"), "", "is remote"},
		"env of generator":    {k("secretGenerator: [{name: x, envs: ['" + at + "']}]"), "", "is remote"},
		"old env":             {k("configMapGenerator: [{name: x, env: '" + at + "'}]"), "", "is remote"},
		"schema":              {k("resources: [a.yaml]\nopenapi: {path: '" + at + "'}"), "", "is remote"},
		"crd":                 {k("resources: [a.yaml]\ncrds: ['" + at + "']"), "", "is remote"},
		"configuration":       {k("resources: [a.yaml]\nconfigurations: ['" + at + "']"), "", "is remote"},
		"replacement":         {k("resources: [a.yaml]\nreplacements: [{path: '" + at + "'}]"), "", "is remote"},
		"generator":           {k("generators: ['" + at + "']"), "", "is no file of the artifact"},
		"transformer":         {k("resources: [a.yaml]\ntransformers: ['https://example.com/a/b']"), "", "is no file of the artifact"},
		"inline transformer":  {k("resources: [a.yaml]\ntransformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: x}\n  path: " + at + "\n"), "", "is remote"},
		"transformer in a file": {map[string]string{"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]", "a.yaml": cm("a", "x"),
			"t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\nPath: " + at + "\n"}, "", "is remote"},
		"generated transformer": {map[string]string{"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t]", "a.yaml": cm("a", "x"), "t/kustomization.yaml": "resources: []"}, "", "is no file of the artifact"},
		"generator in a file with a line break": {map[string]string{"kustomization.yaml": "generators: [\"g\\n.yaml\"]",
			"g\n.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: ['k=" + at + "']\n"}, "", "is remote"},
		"generator in a file with a map as its name": {map[string]string{"kustomization.yaml": "generators: [\"a: b\\n\"]",
			"a: b\n": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: ['k=" + at + "']\n"}, "", "is no file of the artifact"},
		"transformer in a folder with a line break": {map[string]string{"kustomization.yaml": "resources: [a.yaml]\ntransformers: [\"t\\nt\"]", "a.yaml": cm("a", "x"), "t\nt/kustomization.yaml": "resources: [t.yaml]",
			"t\nt/t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npath: " + at + "\n"}, "", "is no file of the artifact"},
		"field with a letter that counts as s": {map[string]string{"kustomization.yaml": "generators: [g.yaml]",
			"g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfile\u017f: ['k=" + at + "']\n"}, "", "is remote"},
		"nested": {map[string]string{"kustomization.yaml": "resources: [b]", "b/kustomization.yaml": "resources: ['" + at + "']"}, "", "file b/kustomization.yaml"},
		"chart":  {k("helmCharts: [{name: x, repo: 'https://example.com'}]"), "", "helm"},
		"function": {map[string]string{"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]", "a.yaml": cm("a", "x"),
			"t.yaml": "apiVersion: example.com/v1\nkind: Fn\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: /bin/sh}\n"}, "", ""},
		"outside":           {k("resources: [" + filepath.Join(outside, "secret.yaml") + "]"), "", ""},
		"outside, relative": {k("resources: [../" + filepath.Base(outside) + "/secret.yaml]"), "", ""},
		"file outside":      {k("configMapGenerator: [{name: x, files: ['/etc/hostname']}]"), "", ""},
		"no kustomization":  {map[string]string{"a.yaml": "a: [", "b/kustomization.yaml": "resources: [c.yaml]", "b/c.yaml": cm("c", "x")}, "", "a.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readPath(t.Context(), nil, files(t, tt.files), tt.path, nil, source.Variables{})
			require.ErrorContains(t, err, tt.want)
		})
	}
	t.Run("component of the spec", func(t *testing.T) {
		t.Parallel()
		for _, component := range []string{"https://example.com/a/b", "github.com/a/b", "me@example.com:a/b", outside} {
			_, err := readPath(t.Context(), nil, files(t, map[string]string{"a.yaml": cm("a", "x")}), "", &v1alpha1.Kustomize{Components: []string{component}}, source.Variables{})
			require.Error(t, err, component)
		}
	})
	t.Run("growth", func(t *testing.T) {
		t.Parallel()
		all := map[string]string{"l0/a.yaml": cm("a", "x"), "l0/kustomization.yaml": "resources: [a.yaml]"}
		for i := 1; i < 30; i++ {
			for _, side := range []string{"a", "b"} {
				all[fmt.Sprintf("l%d%s/kustomization.yaml", i, side)] = fmt.Sprintf("namePrefix: %s\nresources: [../l%d]\n", side, i-1)
			}
			all[fmt.Sprintf("l%d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../l%da, ../l%db]\n", i, i)
		}
		_, err := readPath(t.Context(), nil, files(t, all), "l29", nil, source.Variables{})
		require.ErrorContains(t, err, "reads more than")
	})
}
