package flux

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source"
)

// TestMain is the process of a build, as the operator is. With a URL, it then loads that as kustomize loads a remote file.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != BuildArgument {
		os.Exit(m.Run())
	}
	code := ServeBuild(os.Stdin, os.Stdout)
	if len(os.Args) > 2 {
		artifact := filesys.MakeFsInMemory()
		_ = artifact.WriteFile("kustomization.yaml", []byte("configMapGenerator: [{name: a, files: ['k="+os.Args[2]+"']}]"))
		_, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(artifact, ".")
		fmt.Fprint(os.Stderr, err)
	}
	os.Exit(code)
}

// TestBuildsAreOffline: the process of a build sends no request, also for a URL that the guard takes for a path.
func TestBuildsAreOffline(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	t.Cleanup(server.Close)
	command := exec.CommandContext(t.Context(), os.Args[0], BuildArgument, server.URL)
	command.Stdin = strings.NewReader(fmt.Sprintf(`{"Root": %q, "CPU": %d, "Memory": %d}`, t.TempDir(), maxBuildCPU, maxBuildMemory))
	var said strings.Builder
	command.Stderr = &said
	require.NoError(t, command.Run(), "an empty directory is no fault of the process")
	require.Contains(t, said.String(), "must be in its artifact")
}

// TestBuildApart: a process of its own makes the same texts, with the same places and errors.
func TestBuildApart(t *testing.T) {
	t.Parallel()
	apart := NewBuilder()
	for name, tt := range map[string]struct {
		reason string
		files  map[string]string
	}{
		"objects": {"Objects of one file have their places in it.", map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]\nnamePrefix: p-\n", "a.yaml": cm("a", "${who}") + "---\n" + cm("b", "x"), "b.yaml": cm("c", "x")}},
		"broken":  {"An error has the file.", map[string]string{"kustomization.yaml": "resources: [none.yaml]\n"}},
		"binary":  {"A value that is no text is no other value.", map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": cm("a", "${cert}")}},
		"remote":  {"The guard is the same.", map[string]string{"kustomization.yaml": "resources: ['https://example.com/x']\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := files(t, tt.files)
			vars := source.Variables{Values: map[string]string{"who": "secret", "cert": "a\xffb"}, Secret: []string{"cert", "who"}}
			want, wantErr := readPath(t.Context(), nil, root, "", &v1alpha1.Kustomize{}, vars)
			got, err := readPath(t.Context(), apart, root, "", &v1alpha1.Kustomize{}, vars)
			require.Equal(t, want, got, tt.reason)
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err))
		})
	}
}

// TestBuildBounds: a build that takes too much is ended, whatever it does, and an operator that cannot start it is not the fault of the kustomization.
func TestBuildBounds(t *testing.T) {
	t.Parallel()
	var objects, patches strings.Builder
	for i := range 500 {
		objects.WriteString(cm(fmt.Sprint("c", i), "x") + "---\n")
		patches.WriteString(`- {target: {kind: ConfigMap}, patch: '[{"op": "add", "path": "/data/x", "value": "1"}]'}` + "\n")
	}
	root := files(t, map[string]string{"kustomization.yaml": "resources: [all.yaml]\npatches:\n" + patches.String(), "all.yaml": objects.String()})
	for name, tt := range map[string]struct {
		reason string
		change func(*buildJob)
		want   string
	}{
		"time":   {"Each patch is tried on each object.", func(j *buildJob) { j.CPU = 500 * time.Millisecond }, "processor time"},
		"memory": {"The schemas alone take more.", func(j *buildJob) { j.Memory = 8 << 20 }, "of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := buildJob{Root: root, Dir: root, CPU: maxBuildCPU, Memory: maxBuildMemory}
			tt.change(&job)
			_, err := buildApart(t.Context(), os.Args[0], job)
			require.ErrorContains(t, err, tt.want, tt.reason)
			require.NotErrorIs(t, err, errProcess)
		})
	}
	_, err := buildApart(t.Context(), root, buildJob{Root: root, Dir: root})
	require.ErrorIs(t, err, errProcess)
}

// TestAddresses: a name that leads to the machine of Vidra is refused when the connection is made, as the address of a name changes.
func TestAddresses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		reason, host string
		hosts        Hosts
		want         string
	}{
		"name":          {"localhost stands for a Service that leads to 127.0.0.1.", "localhost", Hosts{"localhost"}, "127.0.0.1, which is one of the machine"},
		"upper case":    {"Names have no case.", "LOCALHOST", Hosts{"localhost"}, "127.0.0.1, which is one of the machine"},
		"other letters": {"net/http makes a dot of it, and connects to a name with two labels.", "a\u3002localhost", Hosts{"*"}, "is not one of those"},
		"address":       {"The administrators have listed it.", "127.0.0.1", Hosts{"127.0.0.1"}, ""},
		"both":          {"The administrators have listed name and address.", "localhost", Hosts{"localhost", "127.0.0.1:" + at.Port()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+tt.host+":"+at.Port()+"/", nil)
			require.NoError(t, err)
			answer, err := NewClient(tt.hosts).Do(request)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want, tt.reason)
				return
			}
			require.NoError(t, err, tt.reason)
			require.NoError(t, answer.Body.Close())
		})
	}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1]:80", "[::1]:80", "0.0.0.0:80", "224.0.0.1:80", "[::ffff:127.0.0.1]:80"} {
		require.Error(t, ServiceHosts.checkAddress("a.b.svc", address), address)
	}
	require.NoError(t, ServiceHosts.checkAddress("a.b.svc", "10.96.0.10:80"))
	for _, name := range []string{"a.b.svc.cluster.local", "a.b.svc.cluster.local.", "A.b.SVC.cluster.local"} {
		require.True(t, ServiceHosts.names(name, "80"), "the address of each name that is allowed is checked: %s", name)
	}
}

// TestOutputOfABuild: what a build writes is bounded, however it is copied.
func TestOutputOfABuild(t *testing.T) {
	t.Parallel()
	output := &bounded{}
	_, err := io.Copy(output, io.LimitReader(zeros{}, maxBuilt+1))
	require.ErrorContains(t, err, "split it")
	require.Equal(t, err, output.err)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
