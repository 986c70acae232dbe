package ui

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

var (
	// cluster is the control plane of all tests, with an operator.
	cluster = &suite.Cluster{}
	admin   client.Client
	// binary is the command line.
	binary string
	// kubeconfig is that of the administrator, with the name of a context as a user has it.
	kubeconfig string
	// browser is the Chromium of all tests, and stopBrowser ends it.
	browser     context.Context
	stopBrowser = func() {}
)

func TestMain(m *testing.M) {
	if suite.Deployed() {
		os.Exit(0) // the page is a program of this machine
	}
	suite.Main(m, setUp, func() error {
		stopBrowser()
		return cluster.Stop()
	})
}

// setUp starts what the tests share.
func setUp(ctx context.Context) (err error) {
	if binary, err = cluster.StartWithCLI(ctx); err != nil {
		return err
	}
	admin = cluster.Admin
	kubeconfig, err = renamed(cluster.KubeconfigPath)
	return err
}

// renamed is a kubeconfig with another name of its context.
func renamed(path string) (string, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	config.Contexts["staging"] = config.Contexts[config.CurrentContext]
	config.CurrentContext = "staging"
	target := path + ".staging"
	return target, clientcmd.WriteToFile(*config, target)
}

// chromium is the path of the browser; empty if there is none.
var chromium = sync.OnceValue(func() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
})

// startBrowser starts the browser for the first test that needs it.
var startBrowser = sync.OnceValue(func() error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 900))
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	first, stop := chromedp.NewContext(allocator)
	browser, stopBrowser = first, func() { //nolint:fatcontext // one browser serves all tests
		stop()
		stopAllocator()
	}
	return chromedp.Run(first)
})

// page is a running `vidra ui`.
type page struct {
	URL string
}

// start runs `vidra ui` with a kubeconfig until the test ends.
func start(t *testing.T, kubeconfig string, args ...string) page {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, append([]string{"ui", "--no-open"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+filepath.Dir(cluster.KubeconfigPath))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was interrupted
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", &said)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/\n$`, line, "the first line is the address")
	return page{strings.TrimSpace(line)}
}

// get reads a page without a browser.
func (p page) get(t require.TestingT, path string, change ...func(*http.Request)) (code int, body string) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.URL+path, http.NoBody)
	require.NoError(t, err)
	for _, c := range change {
		c(r)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	// mu guards faults.
	mu sync.Mutex
	// faults are what the page reports on its console: an exception, or a violation of the Content-Security-Policy.
	faults []string
}

// view is the size and the colours of a page.
type view struct {
	width, height int64
	dark          bool
}

var desktop, phone = view{width: 1280, height: 900}, view{width: 390, height: 844}

// open opens a page of the browser. The test fails for each fault that the console has, but for those of a server that is away.
func (p page) open(t *testing.T, path string, v view) *tab {
	t.Helper()
	if chromium() == "" {
		t.Skip("there is no Chromium: install the package chromium")
	}
	require.NoError(t, startBrowser())
	ctx, cancel := chromedp.NewContext(browser)
	ctx, cancelTimeout := context.WithTimeout(ctx, 2*time.Minute)
	at := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		cancelTimeout()
		cancel()
		at.mu.Lock()
		defer at.mu.Unlock()
		assert.Empty(t, at.faults, "the console")
	})
	chromedp.ListenTarget(ctx, func(event any) {
		if e, is := event.(*cdpruntime.EventExceptionThrown); is {
			at.fault(e.ExceptionDetails.Error())
		}
	})
	scheme := map[bool]string{true: "dark", false: "light"}[v.dark]
	at.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetDeviceMetricsOverride(v.width, v.height, 1, v.width < 500), cdppage.BringToFront(), chromedp.Navigate(p.URL+path), chromedp.WaitVisible("main", chromedp.ByQuery))
	return at
}

func (at *tab) fault(text string) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.faults = append(at.faults, text)
}

func (at *tab) run(actions ...chromedp.Action) {
	at.t.Helper()
	require.NoError(at.t, chromedp.Run(at.ctx, actions...))
}

// eval evaluates an expression in the page. A promise is awaited.
func eval[T any](t require.TestingT, at *tab, script string) (value T) {
	err := chromedp.Run(at.ctx, chromedp.Evaluate(script, &value, func(p *cdpruntime.EvaluateParams) *cdpruntime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	require.NoError(t, err, script)
	return value
}

// text is the text of the page.
func (at *tab) text(t require.TestingT) string { return eval[string](t, at, `document.body.innerText`) }

// await waits until the text of the page has all parts.
func (at *tab) await(parts ...string) {
	at.t.Helper()
	suite.Await(at.t, func(c *assert.CollectT) {
		text := at.text(c)
		for _, part := range parts {
			require.Contains(c, text, part)
		}
	})
}

// axe is the script of axe-core from the npm registry, in the cache of the user; empty if it cannot be had.
var axe = sync.OnceValue(func() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	const version = "4.10.3"
	folder := filepath.Join(cache, "vidra", "axe-core-"+version)
	script := filepath.Join(folder, "axe.min.js")
	if text, err := os.ReadFile(script); err == nil { //nolint:gosec // a file of this test
		return string(text)
	}
	if os.MkdirAll(folder, 0o750) != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	packed := exec.CommandContext(ctx, "npm", "pack", "--silent", "axe-core@"+version)
	packed.Dir = folder
	if packed.Run() != nil {
		return ""
	}
	unpack := exec.CommandContext(ctx, "tar", "-xzf", "axe-core-"+version+".tgz", "--strip-components=1", "package/axe.min.js", "package/LICENSE")
	unpack.Dir = folder
	if unpack.Run() != nil {
		return ""
	}
	text, err := os.ReadFile(script) //nolint:gosec // a file of this test
	if err != nil {
		return ""
	}
	return string(text)
})

// requireAccessible requires that axe-core finds no violation.
func (at *tab) requireAccessible(what string) {
	at.t.Helper()
	if axe() == "" {
		at.t.Log("axe-core was not run: npm cannot get it")
		return
	}
	eval[any](at.t, at, axe()+"\n;null")
	found := eval[[]string](at.t, at, `axe.run().then(r => r.violations.map(v => v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")))`)
	assert.Empty(at.t, found, "%s: axe-core", what)
}
