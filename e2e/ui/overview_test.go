package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// names are the VidraResources in the rows of the overview that are read.
const names = `[...document.querySelectorAll("tbody th > a:first-child")].map(a => a.textContent)`

// TestOverview filters and searches.
func TestOverview(t *testing.T) {
	others(t)
	p := start(t, kubeconfig)
	at := p.open(t, "", desktop)
	at.await("Live", "KindUnavailable", "install its CustomResourceDefinition", "end what keeps Vidra from the revert", "What happened lately")
	require.Regexp(t, `Not in order: .*failing, .*drifted, .*suspended`, at.text(t), "the verdict comes first")
	require.NotContains(t, at.text(t), "Install the CustomResourceDefinition", "the message has the next step already")
	billing := eval[string](t, at, `document.getElementById("vr-billing").innerText`)
	require.NotContains(t, billing, "Yes", "no object is healthy")
	all := eval[[]string](t, at, names)
	require.Less(t, indexOf(all, "billing"), indexOf(all, "cart"), "failing before drifted")
	require.Less(t, indexOf(all, "cart"), indexOf(all, "ledger"), "drifted before suspended")
	require.Less(t, indexOf(all, "ledger"), indexOf(all, "search"), "suspended before in order")
	shows := func(want ...string) {
		t.Helper()
		suite.Await(t, func(c *assert.CollectT) { require.Equal(c, want, eval[[]string](c, at, names)) })
	}
	at.run(chromedp.Click(`.tile.suspended`, chromedp.ByQuery))
	shows("ledger")
	require.Equal(t, "?state=suspended", eval[string](t, at, `location.search`), "the address has the filter")
	at.run(chromedp.Click(`[data-filter=""]`, chromedp.ByQuery))
	at.fill("search", "deployment/we")
	shows("shop")
	at.await("Deployment shop/web")
	at.fill("search", "")
	at.fill("labels", "team!=web,team")
	at.fill("namespace", "cart")
	shows("cart")
	at.fill("search", "nothing like it")
	at.await("No VidraResource matches", "Show all VidraResources")
	at.fill("labels", "!!")
	at.await("The labels are no selector")

	_, body := p.get(t, "?part=summary")
	require.Contains(t, body, "Failed: KindUnavailable", "what happened lately")
	_, body = p.get(t, "vr/missing")
	require.Contains(t, body, "VidraResource missing does not exist")
	require.Contains(t, body, "Next", "an error has the next step")
}

// fill types a text into a field.
func (at *tab) fill(name, text string) {
	at.t.Helper()
	eval[any](at.t, at, fmt.Sprintf(`{ const field = document.querySelector("[name=%s]"); field.value = %q; field.dispatchEvent(new Event("input", { bubbles: true })); null }`, name, text))
}

func indexOf(all []string, name string) int {
	for i, each := range all {
		if each == name {
			return i
		}
	}
	return -1
}

// TestVidraResource has the inventory with what objects own.
func TestVidraResource(t *testing.T) {
	shop(t)
	at := start(t, kubeconfig).open(t, "vr/shop", desktop)
	at.await("Source", "spec.manifest", "generation ", "Conditions", "Secret shop/credentials")
	suite.Await(t, func(c *assert.CollectT) { // the controllers create the Pods
		eval[any](c, at, `document.querySelectorAll("details").forEach(d => { d.open = false; delete d.dataset.read }); document.querySelectorAll("details").forEach(d => d.open = true); null`)
		require.Contains(c, at.text(c), "Pod shop/web-")
	})
	require.Contains(t, at.text(t), "ReplicaSet shop/web-")
	require.NotContains(t, at.text(t), "swordfish")
}

// TestObject has the owners of lines, the ways to keep a change, and a copy button.
func TestObject(t *testing.T) {
	shop(t)
	p := start(t, kubeconfig)
	at := p.open(t, "object?kind=configmap&namespace=shop&name=settings", desktop)
	at.await("Live")
	requireLive(t, at, "for-the-diff")
	at.await("Last edit as a diff", "greeting: for-the-diff", "lines from the manifest, ", `Reverted because VidraResource shop sets data.greeting to "hello" (spec.manifest, document 1, line 9)`,
		`Change data.greeting to "for-the-diff" at spec.manifest, document 1, line 9.`, "Make it in the manifest", "Leave the field to others", "Keep all edits for a while", "- /data/greeting", "kubectl edit vidraresource shop")
	lines := eval[string](t, at, `[...document.querySelectorAll(".blame tr")].map(r => r.innerText.replace(/\s+/g, " ")).join("\n")`)
	require.Contains(t, lines, "shop: document 1, line 9 greeting: hello")
	at.run(chromedp.Click(`.ways [data-copy]`, chromedp.ByQuery))
	suite.Await(t, func(c *assert.CollectT) {
		require.Regexp(c, "Copied|Selected", eval[string](c, at, `document.getElementById("toast").textContent`))
	})
	_, body := p.get(t, "object?kind=secret&namespace=shop&name=credentials")
	require.Contains(t, body, "***")
	require.NotContains(t, body, "swordfish")
	_, body = p.get(t, "object?kind=deployment&namespace=shop&name=web")
	require.NotContains(t, body, "swordfish")
	_, body = p.get(t, "object?kind=configmap&namespace=shop&name=nothing")
	require.Contains(t, body, "no VidraResource manages it")
}

// TestMany has 5,000 VidraResources, of which a page has some rows at a time.
func TestMany(t *testing.T) {
	shop(t)
	const many = 5000
	each := func(do func(*v1alpha1.VidraResource) error) {
		var group errgroup.Group
		group.SetLimit(24)
		for i := range many {
			group.Go(func() error {
				return do(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("many-%04d", i), Labels: map[string]string{v1alpha1.InstallationLabel: "none", "many": "yes"},
				}})
			})
		}
		require.NoError(t, group.Wait())
	}
	each(func(v *v1alpha1.VidraResource) error { return admin.Create(t.Context(), v) })
	defer each(func(v *v1alpha1.VidraResource) error { return admin.Delete(context.Background(), v) })
	p := start(t, kubeconfig)
	suite.Await(t, func(c *assert.CollectT) {
		_, body := p.get(c, "?labels=many%3Dyes&part=summary")
		require.Contains(c, body, ">5000<")
	})
	at := p.open(t, "?labels=many%3Dyes", desktop)
	first := eval[float64](t, at, `performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`)
	t.Logf("first row after %.0f ms", first)
	require.Less(t, first, 3000.0)
	require.Equal(t, 50, eval[int](t, at, `document.querySelectorAll("tbody th").length`), "the server sends a block")
	longest := eval[float64](t, at, `new Promise(done => {
		let at = performance.now(), longest = 0, y = 0;
		const height = document.documentElement.scrollHeight;
		const step = now => { longest = Math.max(longest, now - at); at = now; scrollTo(0, y += height / 60); y < height ? requestAnimationFrame(step) : done(longest) };
		requestAnimationFrame(step);
	})`)
	t.Logf("longest frame of a scroll over all %.0f ms", longest)
	require.Less(t, longest, 2000.0)
	suite.Await(t, func(c *assert.CollectT) { require.Contains(c, at.text(c), "many-4999") })
	require.Less(t, eval[int](t, at, `document.querySelectorAll("tbody th").length`), 1500, "rows far from the view are removed")
}

// hostile is markup and control characters.
const hostile = "<img src=x onerror=alert(1)>\"'`\x1b[31m\u202e\u200b</script><script>window.pwned=1</script>"

// TestHostile has names and values of a cluster as text.
func TestHostile(t *testing.T) {
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}}))
	quoted, err := json.Marshal(hostile)
	require.NoError(t, err)
	name := strings.NewReplacer("/", "", "%", "").Replace(hostile)
	named, err := json.Marshal(name)
	require.NoError(t, err)
	v := cluster.NewVidraResource(t, "hostile", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, annotations: {note: %[1]s}}\ndata: {text: %[1]s, greeting: hello}\n---\n"+
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: %[2]s}\nrules: []\n", quoted, named))
	cluster.AwaitReady(t, v.Name)
	p := start(t, kubeconfig)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: "settings"}}
	at := p.open(t, "vr/hostile", desktop)
	at.await("Live", `<img src=x onerror=alert(1)>`)
	for i, path := range []string{"vr/hostile", "object?kind=configmap&namespace=hostile&name=settings", "?search=" + "img", "?search=%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E&labels=%3Cb%3E"} {
		require.NoError(t, cluster.MergePatch(settings, `{"data":{"text":%q}}`, fmt.Sprint(i, "<script>window.pwned=1</script>")))
		at := p.open(t, path, desktop)
		at.await("Live")
		require.False(t, eval[bool](t, at, `"pwned" in window`), path)
		require.Zero(t, eval[int](t, at, `document.querySelectorAll("main img, main script").length`), path)
		text := at.text(t)
		require.NotContains(t, text, "\u202e", path)
		require.NotContains(t, text, "\x1b", path)
	}
}
