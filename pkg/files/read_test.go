package files

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\n"

// serve serves texts, and what else a server may answer.
func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/install.yaml":
			_, _ = io.WriteString(w, page)
		case "/moved.yaml":
			http.Redirect(w, r, "/install.yaml?signature=swordfish", http.StatusFound)
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<html>")
		case "/large.yaml":
			_, _ = io.Copy(w, io.LimitReader(zeros{}, MaxBytes+1))
		case "/broken.yaml":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "short")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// zeros is an endless text.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("0"), len(p))), nil }

// TestRead reads manifests from all places.
func TestRead(t *testing.T) {
	server := serve(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	one, _, _ := write("set/1.yaml", page), write("set/2.json", "{}"), write("set/notes.txt", "no manifest")
	write("set/inner/3.yml", "# three\n")
	write("set/.git/4.yaml", "# not read\n")
	write("base/page.yaml", page)
	write("base/kustomization.yaml", "namespace: shop\nresources: [page.yaml]\n")
	write("overlay/kustomization.yaml", "namePrefix: a-\nresources: [../base]\n")
	write("outside/kustomization.yaml", "configMapGenerator: [{name: a, files: [../base/page.yaml]}]\n")
	write("chart/kustomization.yaml", "helmCharts: [{name: a, repo: https://example.com}]\n")
	in := func(name string) string { return filepath.Join(folder, name) }
	tests := map[string]struct {
		reason         string
		paths, folders []string
		recursive      bool
		// names are those of the files, and text a part of all texts.
		names []string
		text  string
		err   string
	}{
		"file":                {"as it is", []string{one}, nil, false, []string{one}, page, ""},
		"folder":              {"in the order of the names, and without other files", []string{in("set")}, nil, false, []string{one, in("set/2.json")}, page + "{}", ""},
		"folders":             {"hidden ones are not read", []string{in("set")}, nil, true, []string{one, in("set/2.json"), in("set/inner/3.yml")}, "# three", ""},
		"standard input":      {"its name is -", []string{"-"}, nil, false, []string{"-"}, "typed", ""},
		"URL":                 {"by HTTP", []string{server + "/install.yaml"}, nil, false, []string{server + "/install.yaml"}, page, ""},
		"URL with a token":    {"no message has it", []string{strings.Replace(server, "://", "://user:swordfish@", 1) + "/install.yaml?token=swordfish#a"}, nil, false, []string{server + "/install.yaml"}, page, ""},
		"redirect":            {"as for a release on GitHub", []string{server + "/moved.yaml"}, nil, false, []string{server + "/moved.yaml"}, page, ""},
		"web page":            {"the address of a page is a frequent mistake", []string{server + "/page"}, nil, false, nil, "", "it is a web page, not a manifest"},
		"not found":           {"the status is named", []string{server + "/nothing?token=swordfish"}, nil, false, nil, "", "/nothing: the server answered 404 Not Found"},
		"no server":           {"the query is not shown", []string{"http://127.0.0.1:1/a?token=swordfish"}, nil, false, nil, "", "read http://127.0.0.1:1/a: "},
		"no URL":              {"its text is not shown", []string{"https://user:swordfish@%zz/"}, nil, false, nil, "", "the URL after -f cannot be parsed"},
		"too large":           {"the read ends", []string{server + "/large.yaml"}, nil, false, nil, "", "it has more than 8388608 bytes"},
		"ends early":          {"half a manifest is none", []string{server + "/broken.yaml"}, nil, false, nil, "", "unexpected EOF"},
		"kustomization":       {"built with its bases", nil, []string{in("overlay")}, false, []string{"kustomization " + in("overlay")}, "  name: a-page\n  namespace: shop\n", ""},
		"both":                {"the files are first", []string{one}, []string{in("base")}, false, []string{one, "kustomization " + in("base")}, page, ""},
		"outside":             {"a kustomization is confined to its folder", nil, []string{in("outside")}, false, nil, "", "security"},
		"chart":               {"no program is run", nil, []string{in("chart")}, false, nil, "", "--enable-helm"},
		"no kustomization":    {"the folder is named", nil, []string{in("set")}, false, nil, "", "build the kustomization in " + in("set")},
		"twice":               {"it may be a mistake", []string{one, one}, nil, false, nil, "", one + " is given twice with -f"},
		"kustomization again": {"it may be a mistake", nil, []string{in("base"), in("base")}, false, nil, "", "is given twice with -k"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := Reader{In: strings.NewReader("typed"), Recursive: tt.recursive}
			files, err := r.Read(t.Context(), tt.paths, tt.folders)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err, tt.reason)
				require.NotContains(t, err.Error(), "swordfish", tt.reason)
				return
			}
			require.NoError(t, err, tt.reason)
			var names []string
			all := ""
			for _, f := range files {
				names, all = append(names, f.Name), all+f.Text
			}
			require.Equal(t, tt.names, names, tt.reason)
			require.Contains(t, all, tt.text, tt.reason)
		})
	}
}

// TestErrorsOfKustomizations: an error has the fault and no value: kustomize quotes literals, patches and URLs.
func TestErrorsOfKustomizations(t *testing.T) {
	t.Parallel()
	patch := "- patch: |-\n    apiVersion: v1\n    kind: Secret\n    metadata: {name: none}\n    stringData: {password: swordfish}\n"
	for name, tt := range map[string]struct {
		kustomization, other, want string
	}{
		"missing file":     {"resources: [none.yaml]\n", "", "none.yaml: no such file or directory"},
		"missing patch":    {"resources: [a.yaml]\npatches: [{path: none.yaml}]\n", page, "none.yaml: no such file or directory"},
		"syntax":           {"resources: [a.yaml\n", "", "yaml: line 1: did not find expected"},
		"unknown field":    {"resource: [a.yaml]\n", "", `unknown field "resource"`},
		"empty":            {"", "", "kustomization.yaml is empty"},
		"replacement":      {"resources: [a.yaml]\nreplacements: [{source: {kind: Secret, name: none}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a]}]}]\n", page, "nothing selected by Secret"},
		"literal":          {"secretGenerator: [{name: a, literals: [swordfish]}]\n", "", "withheld"},
		"URL":              {"resources: ['https://user:swordfish@127.0.0.1:1/a.yaml']\n", "", "withheld"},
		"query":            {"resources: ['https://127.0.0.1:1/a.yaml?token=swordfish']\n", "", "withheld"},
		"patch":            {"resources: [a.yaml]\npatches:\n" + patch, page, "no matches for Id Secret"},
		"JSON patch":       {"resources: [a.yaml]\npatches: [{target: {kind: ConfigMap}, patch: '[{op: test, path: /data/a, value: swordfish}]'}]\n", page, "withheld"},
		"broken resource":  {"resources: [a.yaml]\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: ''}\nstringData: {password: swordfish}\n", "missing metadata.name"},
		"twice":            {"resources: [a.yaml, a.yaml]\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: swordfish}\n", "already registered id"},
		"broken generator": {"generators: [a.yaml]\n", "apiVersion: builtin\nkind: SecretGenerator\nmetadata: {name: a}\nliterals: swordfish\n", "cannot unmarshal string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(tt.kustomization), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(tt.other), 0o600))
			_, err := Reader{}.Read(t.Context(), nil, []string{folder})
			require.ErrorContains(t, err, "build the kustomization in "+folder)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "swordfish")
		})
	}
}

// TestProgress: the bytes of a URL are counted as they are read.
func TestProgress(t *testing.T) {
	var seen bytes.Buffer
	named, size := "", int64(0)
	r := Reader{Progress: func(name string, n int64) io.Writer { named, size = name, n; return &seen }}
	server := serve(t)
	_, err := r.Read(t.Context(), []string{server + "/install.yaml"}, nil)
	require.NoError(t, err)
	require.Equal(t, page, seen.String())
	require.Equal(t, server+"/install.yaml", named)
	require.Equal(t, int64(len(page)), size)
}
