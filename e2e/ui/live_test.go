package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// requireLive edits an object and requires that the page shows the edit and its revert within a second, without a reload.
func requireLive(t *testing.T, at *tab, value string) time.Duration {
	t.Helper()
	const script = `window.arrived ??= new Promise(done => { const row = text => /Reverted by Vidra\s+stood for \d+ ms/.test(text) && text.includes(%q);
		const look = () => [...document.querySelectorAll(".moment")].some(m => row(m.innerText)) ? done(Date.now()) : setTimeout(look, 5); look() }); null`
	eval[any](t, at, `delete window.arrived; window.kept = "yes"; null`)
	eval[any](t, at, fmt.Sprintf(script, value))
	began := time.Now()
	editGreeting(t, value)
	arrived := time.UnixMilli(int64(eval[float64](t, at, `window.arrived`)))
	require.Equal(t, "yes", eval[string](t, at, `window.kept`), "no reload")
	took := arrived.Sub(began)
	t.Logf("the edit and its revert were on the page after %s", took)
	return took
}

// TestLive has an edit of a terminal on the page within a second with its revert, on the pages of the VidraResource and of the object.
func TestLive(t *testing.T) {
	shop(t)
	p := start(t, kubeconfig)
	for name, path := range map[string]string{"VidraResource": "vr/shop", "object": "object?kind=configmap&namespace=shop&name=settings"} {
		t.Run(name, func(t *testing.T) {
			at := p.open(t, path, desktop)
			at.await("Live")
			took := requireLive(t, at, "live-"+strings.ToLower(name))
			assert.Less(t, took, time.Second)
			text := at.text(t)
			require.Regexp(t, `stood for \d+ ms`, text, "how long the edit stood")
			require.Contains(t, text, "edited with kubectl-edit")
			require.Contains(t, text, "hello", "the value of the manifest")
		})
	}
}

// TestReconnect has the API server go away and come back: the page says so, and continues.
func TestReconnect(t *testing.T) {
	shop(t)
	proxy, err := faultproxy.Start(cluster.Config)
	require.NoError(t, err)
	defer proxy.Close()
	text, err := testenv.Kubeconfig(proxy.Config())
	require.NoError(t, err)
	config, err := clientcmd.Load(text)
	require.NoError(t, err)
	path := t.TempDir() + "/kubeconfig"
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	p := start(t, path)
	at := p.open(t, "vr/shop", desktop)
	at.await("Live")
	requireLive(t, at, "before the restart")
	proxy.Down()
	at.await("The API server does not answer since")
	editGreeting(t, "while it was away")
	suite.Await(t, func(c *assert.CollectT) {
		settings := theSettings()
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(settings), settings))
		require.Equal(c, "hello", settings.Data["greeting"])
	})
	require.NoError(t, proxy.Up())
	at.await("Connected again")
	suite.Await(t, func(c *assert.CollectT) { // its watch continues at the last event; older rows are folded
		require.Contains(c, eval[string](c, at, `document.body.textContent`), "while it was away")
	})
	requireLive(t, at, "after the restart")
	require.NotContains(t, at.text(t), "does not answer")
	at.faults = nil // requests of the page failed meanwhile
}

// TestManyPages has nine pages open, more than connections that a browser has to one server: all are notified, and each kind has one
// watch.
func TestManyPages(t *testing.T) {
	shop(t)
	proxy, err := faultproxy.Start(cluster.Config)
	require.NoError(t, err)
	defer proxy.Close()
	text, err := testenv.Kubeconfig(proxy.Config())
	require.NoError(t, err)
	config, err := clientcmd.Load(text)
	require.NoError(t, err)
	path := t.TempDir() + "/kubeconfig"
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	p := start(t, path)
	var tabs []*tab
	for range 8 { // and that of an object
		at := p.open(t, "vr/shop", desktop)
		at.await("Live")
		tabs = append(tabs, at)
	}
	object := p.open(t, "object?kind=configmap&namespace=shop&name=settings", desktop)
	object.await("Live")
	requireLive(t, tabs[0], "many pages")
	for _, at := range append(tabs, object) {
		at.await("many pages")
	}
	watches := map[string]int{}
	for _, r := range proxy.Requests(faultproxy.Mark(0), faultproxy.Match{Verb: "watch"}) {
		watches[r.Resource]++
	}
	require.Equal(t, map[string]int{"vidraresources": 1, "configmaps": 1, "deployments": 1, "secrets": 1}, watches)
}

// TestActions suspends, resumes and exempts with --allow-writes, and shows the commands without it.
func TestActions(t *testing.T) {
	shop(t)
	reading := start(t, kubeconfig)
	_, body := reading.get(t, "vr/shop")
	require.Contains(t, body, "vidra suspend shop")
	require.NotContains(t, body, "data-act")
	p := start(t, kubeconfig, "--allow-writes")
	at := p.open(t, "vr/shop", desktop)
	press := func(verb string) {
		at.run(chromedp.Click(fmt.Sprintf(`//form[input[@value=%q]]//button`, verb), chromedp.BySearch))
	}
	press("suspend")
	at.await("VidraResource shop is suspended.", "Suspended")
	require.True(t, cluster.GetVidraResource(t, "shop").Spec.Suspend)
	press("resume")
	at.await("VidraResource shop is resumed.", "Suspend")
	cluster.AwaitReady(t, "shop")
	press("reconcile")
	at.await("is compared with its manifest")
	at = p.open(t, "object?kind=configmap&namespace=shop&name=settings", desktop)
	at.run(chromedp.SetValue(`[name=reason]`, "INC-42", chromedp.ByQuery))
	press("skip")
	at.await("asked for no reverts until", "exemption by break-glass", "End the exemption")
	press("end")
	at.await("the exemption ended")
	code, body := p.get(t, "vr/shop")
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, body, "swordfish")
	cluster.AwaitReady(t, "shop")
}
